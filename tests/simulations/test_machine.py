"""What a process sets for itself changes no result, and spares it what it does not need."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedsuite.storage.installed import has_no_gpu
from tests.harness import ROOT

# Says "compiler" where it is loaded, and the bytes that were learnt, without and with it.
TRAIN = """
import sys, torch
from simulations.app.machine import leave_the_compiler_out

def learnt(make):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = make(model.parameters(), 0.1)
    other = make(model.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        (model(torch.ones(2, 3)) ** 2).sum().backward()
        optimizer.step()
        other.load_state_dict(optimizer.state_dict())
        other.step()
    return model.weight.detach().numpy().tobytes().hex(), model.weight.grad is not None

MAKES = torch.optim.SGD, torch.optim.Adam
leave_the_compiler_out()
without = [learnt(make) for make in MAKES]
print("torch._dynamo" in sys.modules)
import torch._dynamo
print(without == [learnt(make) for make in MAKES])
"""


def test_optimizers_work_without_the_compiler_and_learn_the_same_bytes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TRAIN], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout.split(), done.returncode) == (["False", "True"], 0), done.stderr


LIMITS = """
import resource
from simulations.app.machine import MOST_FILES, open_more_files

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
open_more_files()
soft, same = resource.getrlimit(resource.RLIMIT_NOFILE)
print(soft == (MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)), same == hard, soft > 64)
"""


def test_a_process_opens_as_many_files_as_it_may() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITS], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout.split(), done.returncode) == (["True"] * 3, 0), done.stderr


THREADS = """
import os, sys
from simulations.client_app import torch_threads

with torch_threads(3):
    import torch
    print(torch.get_num_threads())
with torch_threads(2):
    print(torch.get_num_threads())
print("OMP_NUM_THREADS" in os.environ or "MKL_DYNAMIC" in os.environ)
"""


def test_torch_that_is_imported_while_a_message_is_answered_has_the_messages_threads() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", THREADS],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout.split(), done.returncode) == (["3", "2", "False"], 0), done.stderr


PLAY = """
import sys
from pathlib import Path
from tests.harness import run_toy

run_toy(Path(sys.argv[1]))
print("torch" in sys.modules)
"""


@pytest.mark.skipif(not has_no_gpu(), reason="where a GPU may be, torch is loaded to ask for it")
def test_a_run_whose_clients_know_no_torch_does_without_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PLAY, str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout.split(), done.returncode) == (["False"], 0), done.stderr
