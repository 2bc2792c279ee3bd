"""ADIOS2 writes steps, appends to them, and reads them, here and in another process. The argument is the engine."""

import hashlib
import subprocess
import sys

import adios2
import numpy as np
from adios2.bindings import Mode

ENGINE = sys.argv[1]
NAME = f"steps.{ENGINE.lower()}"
LENGTH = 20_000


def write(mode: Mode, steps: range) -> None:
    adios = adios2.Adios()
    group = adios.declare_io("steps")
    group.set_engine(ENGINE)
    field = group.define_variable("field", np.zeros(LENGTH), [LENGTH], [0], [LENGTH])
    number = group.define_variable("number", np.zeros(1, "i4"))
    group.define_attribute("units", "m")
    file = group.open(NAME, mode)
    for step in steps:
        file.begin_step()
        file.put(field, np.random.default_rng(step).normal(size=LENGTH), Mode.Sync)
        file.put(number, np.array([step], "i4"), Mode.Sync)
        file.end_step()
    file.close()


def read() -> None:
    with adios2.Stream(NAME, "r") as stream:
        for _ in stream.steps():
            digest = hashlib.sha256(stream.read("field").tobytes()).hexdigest()[:16]
            part = stream.read("field", [5], [3]).sum()
            print(ENGINE, stream.current_step(), stream.read("number").item(), digest, part, flush=True)


if len(sys.argv) == 2:
    write(Mode.Write, range(4))
    read()
    if ENGINE != "BP3":
        write(Mode.Append, range(4, 6))
    subprocess.run([sys.executable, __file__, ENGINE, "read"], check=True)
else:
    read()
