"""A ring resonator in Meep: fields at many times, some of them in one file, fluxes, and a restart from a dump."""

import meep as mp

mp.verbosity(0)


def ring() -> tuple[mp.Simulation, object]:
    simulation = mp.Simulation(
        cell_size=mp.Vector3(10, 10),
        geometry=[mp.Cylinder(radius=2, material=mp.Medium(epsilon=12)), mp.Cylinder(radius=1)],
        sources=[mp.Source(mp.GaussianSource(0.15, fwidth=0.1), mp.Ez, mp.Vector3(1.1))],
        resolution=12,
        boundary_layers=[mp.PML(1)],
    )
    simulation.use_output_directory("fields")
    simulation.filename_prefix = "ring"
    flux = simulation.add_flux(0.15, 0.1, 20, mp.FluxRegion(mp.Vector3(3), size=mp.Vector3(0, 4)))
    return simulation, flux


simulation, flux = ring()
simulation.run(
    mp.at_beginning(mp.output_epsilon),
    mp.to_appended("ez", mp.at_every(2, mp.output_efield_z)),
    mp.at_every(5, mp.output_hfield),
    mp.in_volume(mp.Volume(size=mp.Vector3(2, 2)), mp.at_end(mp.output_efield_z)),
    until=20,
)
simulation.save_flux("flux", flux)
simulation.dump("state", single_parallel_file=True)
simulation.run(until=5)
on = simulation.get_array(mp.Ez)
simulation, flux = ring()
simulation.load("state", single_parallel_file=True)
simulation.load_flux("flux", flux)
simulation.run(until=5)
again = simulation.get_array(mp.Ez)
fluxes = mp.get_fluxes(flux)
if mp.am_master():
    print("field", float(abs(again).sum()), "off by", float(abs(on - again).max()))
    print("flux", fluxes[:3])
