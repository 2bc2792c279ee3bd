# Repeats the lines between '!each CLASS...' and '!end each' for every type of these classes, with {kind}, {type}, {dtype}
# and {parts} replaced: Fortran has no generic procedures of its own.
BEGIN {
   add("number", "int8", "integer(int8)", "knarr_int8")
   add("number", "int16", "integer(int16)", "knarr_int16")
   add("number", "int32", "integer(int32)", "knarr_int32")
   add("number", "int64", "integer(int64)", "knarr_int64")
   add("number", "real32", "real(real32)", "knarr_float32")
   add("number", "real64", "real(real64)", "knarr_float64")
   # Logicals of the default kind are integers of 32 bits.
   add("logical", "logical", "logical", "knarr_int32")
   # Complex numbers are reals with one more axis, the first, of real and imaginary part.
   add("complex", "complex32", "complex(real32)", "knarr_float32", "2")
   add("complex", "complex64", "complex(real64)", "knarr_float64", "2")
}

function add(class, kind, type, dtype, parts) {
   classes[++types] = class
   kinds[types] = kind
   names[types] = type
   numbers[types] = dtype
   axes[types] = parts
}

# '!like c_call NAME...' declares functions of C that are called as the abstract interface c_call says.
/^ *function c_[a-z]+\(.*bind\(c\) / { shape = $2; sub(/\(.*/, "", shape) }

/^ *!like / {
   for (i = 3; i <= NF; i++) {
      one = shapes[$2]
      gsub($2, "c_" $i, one)
      sub(/bind\(c\)/, "bind(c, name=\"knarr_" $i "\")", one)
      printf "%s\n", one
   }
   next
}

shape != "" {
   shapes[shape] = shapes[shape] $0 "\n"
   if ($0 ~ /^ *end function/) shape = ""
}

/^ *!each / { wanted = $0; text = ""; inside = 1; next }

/^ *!end each/ {
   for (i = 1; i <= types; i++) {
      if (index(wanted, classes[i]) == 0) continue
      one = text
      gsub(/[{]kind}/, kinds[i], one)
      gsub(/[{]type}/, names[i], one)
      gsub(/[{]dtype}/, numbers[i], one)
      gsub(/[{]parts}/, axes[i], one)
      printf "%s", one
   }
   inside = 0
   next
}

inside { text = text $0 "\n"; next }

{ print }
