"""Rayleigh-Bénard convection, after Dedalus' example, started by a strong disturbance.

mpirun -n N python dedalus_convection.py NX NZ EVERY STEPS    each rank writes files in checkpoints/
"""

import sys

import dedalus.public as d3
import numpy as np

nx, nz, every, steps = (int(word) for word in sys.argv[1:])
LENGTH, HEIGHT, RAYLEIGH = 4, 1, 2e6
coords = d3.CartesianCoordinates("x", "z")
dist = d3.Distributor(coords, dtype=np.float64)
xbasis = d3.RealFourier(coords["x"], size=nx, bounds=(0, LENGTH), dealias=3 / 2)
zbasis = d3.ChebyshevT(coords["z"], size=nz, bounds=(0, HEIGHT), dealias=3 / 2)
p = dist.Field(name="p", bases=(xbasis, zbasis))
b = dist.Field(name="b", bases=(xbasis, zbasis))
u = dist.VectorField(coords, name="u", bases=(xbasis, zbasis))
tau_p = dist.Field(name="tau_p")
tau_b1, tau_b2 = (dist.Field(name=f"tau_b{i}", bases=xbasis) for i in (1, 2))
tau_u1, tau_u2 = (dist.VectorField(coords, name=f"tau_u{i}", bases=xbasis) for i in (1, 2))
_, z = dist.local_grids(xbasis, zbasis)
_, upward = coords.unit_vector_fields(dist)
lifting = zbasis.derivative_basis(1)
diffusivity = RAYLEIGH ** (-1 / 2)
grad_u = d3.grad(u) + upward * d3.Lift(tau_u1, lifting, -1)
grad_b = d3.grad(b) + upward * d3.Lift(tau_b1, lifting, -1)
end_b, end_u = d3.Lift(tau_b2, lifting, -1), d3.Lift(tau_u2, lifting, -1)

problem = d3.IVP([p, b, u, tau_p, tau_b1, tau_b2, tau_u1, tau_u2], namespace=locals())
problem.add_equation("trace(grad_u) + tau_p = 0")
problem.add_equation("dt(b) - diffusivity*div(grad_b) + end_b = - u@grad(b)")
problem.add_equation("dt(u) - diffusivity*div(grad_u) + grad(p) - b*upward + end_u = - u@grad(u)")
problem.add_equation("b(z=0) = HEIGHT")
problem.add_equation("u(z=0) = 0")
problem.add_equation("b(z=HEIGHT) = 0")
problem.add_equation("u(z=HEIGHT) = 0")
problem.add_equation("integ(p) = 0")
solver = problem.build_solver(d3.RK222)
b.fill_random("g", seed=42, distribution="normal", scale=0.1)
b.low_pass_filter(shape=(32, 16))
b["g"] *= z * (HEIGHT - z)
b["g"] += HEIGHT - z

checkpoints = solver.evaluator.add_file_handler("checkpoints", iter=every, max_writes=1, parallel="virtual")
checkpoints.add_tasks(solver.state)
courant = d3.CFL(solver, initial_dt=0.05, cadence=5, safety=0.5, max_change=1.5, min_change=0.5, max_dt=0.1)
courant.add_velocity(u)
for _ in range(steps + 1):
    solver.step(courant.compute_timestep())
