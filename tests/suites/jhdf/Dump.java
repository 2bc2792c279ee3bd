import io.jhdf.HdfFile;
import io.jhdf.api.Dataset;
import io.jhdf.api.Group;
import io.jhdf.api.Node;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Paths;
import java.util.zip.CRC32;

/** Prints each dataset of a file with the CRC-32 of its values, little-endian, as jhdf reads them. */
public class Dump {
    private static ByteBuffer buffer(int bytes) {
        return ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    private static void put(CRC32 crc, Object values) {
        ByteBuffer bytes;
        if (values instanceof Object[] rows) {
            for (Object row : rows) {
                put(crc, row);
            }
            return;
        } else if (values instanceof float[] floats) {
            bytes = buffer(4 * floats.length);
            for (float value : floats) {
                bytes.putInt(Float.floatToRawIntBits(value));
            }
        } else if (values instanceof double[] doubles) {
            bytes = buffer(8 * doubles.length);
            for (double value : doubles) {
                bytes.putLong(Double.doubleToRawLongBits(value));
            }
        } else if (values instanceof int[] ints) {
            bytes = buffer(4 * ints.length);
            for (int value : ints) {
                bytes.putInt(value);
            }
        } else if (values instanceof long[] longs) {
            bytes = buffer(8 * longs.length);
            for (long value : longs) {
                bytes.putLong(value);
            }
        } else if (values instanceof short[] shorts) {
            bytes = buffer(2 * shorts.length);
            for (short value : shorts) {
                bytes.putShort(value);
            }
        } else if (values instanceof byte[] raw) {
            bytes = ByteBuffer.wrap(raw);
        } else {
            bytes = ByteBuffer.wrap(String.valueOf(values).getBytes());
        }
        crc.update(bytes.array());
    }

    private static void walk(Group group) {
        for (Node node : group.getChildren().values()) {
            if (node instanceof Group inner) {
                walk(inner);
            } else if (node instanceof Dataset dataset) {
                CRC32 crc = new CRC32();
                put(crc, dataset.getData());
                System.out.println(node.getPath() + "\t" + crc.getValue());
            }
        }
    }

    public static void main(String[] arguments) {
        try (HdfFile file = new HdfFile(Paths.get(arguments[0]))) {
            walk(file);
        }
    }
}
