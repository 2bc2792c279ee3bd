"""Light in a slab of a photonic crystal, computed by Meep; each rank dumps fields and structure of its own.

mpirun -n N python3 meep_crystal.py CELLS [--from STEP] STEP...    dumps to STEP/ when that much time has gone
"""

import sys

import meep as mp

cells, *steps = sys.argv[1:]
RESOLUTION = 10
size = int(cells) / RESOLUTION
rows = range(-int(size), int(size) + 1)
# Holes in a triangular lattice; the row in the middle is the waveguide.
holes = [
    mp.Cylinder(radius=0.3, height=mp.inf, center=mp.Vector3(column + 0.5 * (row % 2), row * 0.866))
    for column in rows
    for row in rows
    if row
]
slab = mp.Block(center=mp.Vector3(), size=mp.Vector3(mp.inf, mp.inf, size / 4), material=mp.Medium(epsilon=12))
simulation = mp.Simulation(
    cell_size=mp.Vector3(size, size, size),
    geometry=[slab, *holes],
    boundary_layers=[mp.PML(1.0)],
    sources=[mp.Source(mp.GaussianSource(0.25, fwidth=0.2), component=mp.Ey, center=mp.Vector3(-0.3 * size, 0, 0))],
    resolution=RESOLUTION,
    eps_averaging=False,
)
if steps[0] == "--from":
    _, start, *steps = steps
    simulation.load(start, single_parallel_file=False)
for step in steps:
    simulation.run(until=float(step) - simulation.meep_time())
    simulation.dump(step, single_parallel_file=False)
