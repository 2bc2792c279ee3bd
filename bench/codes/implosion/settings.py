"""Settings of AMRClaw: those of its example euler_2d_quadrants, changed to an implosion.

python settings.py EXAMPLE    writes the *.data files that AMRClaw reads; EXAMPLE is the example's folder
"""

import sys


def implosion(example):
    """The settings, to be changed or written by `.write()`."""
    sys.path.insert(0, str(example))
    import setrun  # that of the example

    run = setrun.setrun()
    clawpack = run.clawdata
    clawpack.upper[:] = [0.3, 0.3]
    clawpack.num_cells[:] = [112, 112]
    clawpack.output_style = 2
    clawpack.output_times = [0.02, 0.03, 0.04]
    clawpack.output_format = "binary64"
    clawpack.dt_initial = 1e-4
    clawpack.num_waves = 2
    clawpack.limiter = ["vanleer", "vanleer"]
    clawpack.transverse_waves = 0
    clawpack.cfl_desired = 0.45
    clawpack.cfl_max = 0.5
    clawpack.bc_lower[:] = ["wall", "wall"]
    clawpack.bc_upper[:] = ["wall", "wall"]
    mesh = run.amrdata
    mesh.amr_levels_max = 4
    mesh.refinement_ratios_x = [2, 2, 2]
    mesh.refinement_ratios_y = [2, 2, 2]
    mesh.refinement_ratios_t = [2, 2, 2]
    mesh.max1d = 28
    mesh.flag2refine_tol = 0.02
    run.gaugedata.gauges.clear()
    return run


if __name__ == "__main__":
    implosion(sys.argv[1]).write()
