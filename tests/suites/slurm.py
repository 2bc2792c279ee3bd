#!/usr/bin/env python3
"""Programs that `srun` starts, on one node and on two, each rank with a `knarr run` of its own.

    .venv/bin/python tests/suites/slurm.py          # as root, with the Debian package slurm-wlm

A Slurm of its own runs meanwhile, without authentication. **Its nodes are emulated**: names of one machine, each with
shared memory and a /tmp that the other one does not see. A program writes with PnetCDF plain, then under `knarr run`;
the files have to hold the same. A rank that fails ends the job, and leaves no file. Exit code 1 if anything is wrong.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from killing import ENVIRONMENT, KNARR, REPOSITORY, built

PROGRAM = REPOSITORY / "tests" / "e2e" / "pnetcdf_programs" / "blocks.c"
NODES = ("knarr-a", "knarr-b")
CONFIG = """
ClusterName=knarr
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=17100
SlurmUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
ReturnToService=2
SlurmctldPidFile={top}/controller.pid
SlurmdPidFile={top}/%n.pid
SlurmdSpoolDir={top}/spool-%n
StateSaveLocation={top}/state
SlurmctldLogFile={top}/controller.log
SlurmdLogFile={top}/%n.log
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
{nodes}
PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:4
"""
NODE = "hostname {name} && mount -t tmpfs t /tmp && mount -t tmpfs s /dev/shm && exec slurmd -D -N {name}"
INSIDE = "KNARR_SLURM_INSIDE"
TIME_LIMIT_S = 120


def inside(top: Path) -> int:
    """Starts Slurm, runs the cases, and says what they gave."""
    nodes = [
        f"NodeName={name} NodeHostname={name} NodeAddr=127.0.0.1 Port={17101 + at} CPUs=2"
        for at, name in enumerate(NODES)
    ]
    config = top / "slurm.conf"
    config.write_text(CONFIG.format(host=os.uname().nodename, top=top, nodes="\n".join(nodes)))
    (top / "state").mkdir()
    os.environ["SLURM_CONF"] = str(config)
    # Each daemon and what it starts ends with this program: it is the first process of its namespace.
    subprocess.Popen(["slurmctld", "-D"], stderr=subprocess.DEVNULL)
    for name in NODES:
        subprocess.Popen(["unshare", "--uts", "--mount", "sh", "-c", NODE.format(name=name)], stderr=subprocess.DEVNULL)
    end = time.monotonic() + 30
    while subprocess.run(["sinfo", "-h", "-o", "%D %T"], capture_output=True, text=True).stdout.strip() != "2 idle":
        if time.monotonic() > end:
            print("Slurm does not start:", *(log.read_text()[-2000:] for log in top.glob("*.log")), file=sys.stderr)
            return 1
        time.sleep(0.2)
    return cases(top)


def srun(ranks: int, nodes: int, *command: object) -> subprocess.CompletedProcess[str]:
    start = ["srun", "--kill-on-bad-exit", "--mpi=pmix", "-n", ranks, "-N", nodes]
    words = [str(word) for word in [*start, *command]]
    environment = {**ENVIRONMENT, "SLURM_CONF": os.environ["SLURM_CONF"]}
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=TIME_LIMIT_S)


def cases(top: Path) -> int:
    work = top / "work"
    work.mkdir()
    program = built(PROGRAM, top)
    config = top / "knarr.toml"
    config.write_text('[[file]]\npattern = "*"\n')
    run = [KNARR, "run", "-c", config, "--"]
    plain = work / "plain.nc"
    done = srun(4, 2, program, plain, 5, 64)
    if done.returncode != 0:
        print(f"the program fails without Knarr: {done.stderr}", file=sys.stderr)
        return 1
    wrong = 0
    for name, ranks, nodes in (("two nodes", 4, 2), ("one node", 2, 1)):
        path = work / f"{nodes}.nc"
        done = srun(ranks, nodes, *run, program, path, 5, 64)
        if nodes == 1:
            srun(ranks, nodes, program, plain, 5, 64)
        compared = subprocess.run([KNARR, "verify", plain, path], capture_output=True, text=True)
        is_right = done.returncode == 0 and "handed over" in done.stderr and compared.returncode == 0
        wrong += not is_right
        print(f"{name}: {'equal' if is_right else done.stderr + compared.stdout + compared.stderr}")
    path = work / "failed.nc"
    fails = f'[ "$SLURM_PROCID" = 3 ] && exit 7; exec {program} {path} 5 64'
    done = srun(4, 2, *run, "sh", "-c", fails)
    is_right = done.returncode != 0 and not path.exists()
    wrong += not is_right
    print(f"a rank fails: {'the job ends, and there is no file' if is_right else done.stderr}")
    return int(wrong > 0)


def main() -> int:
    if os.environ.get(INSIDE):
        # Names of nodes are those of this machine here, and nowhere else.
        top = Path(os.environ[INSIDE])
        hosts = top / "hosts"
        hosts.write_text(Path("/etc/hosts").read_text() + f"\n127.0.0.1 {' '.join(NODES)}\n")
        subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
        return inside(top)
    for tool in ("slurmctld", "slurmd", "srun", "mpicc"):
        if shutil.which(tool) is None:
            sys.exit(f"{tool} is not installed: packages slurm-wlm, libopenmpi-dev")
    # Not in /tmp, which nodes have for themselves.
    with tempfile.TemporaryDirectory(prefix="knarr-slurm-", dir="/var/tmp") as top:
        apart = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
        return subprocess.run([*apart, sys.executable, __file__], env=os.environ | {INSIDE: top}).returncode


if __name__ == "__main__":
    sys.exit(main())
