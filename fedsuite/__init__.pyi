"""What type checkers see of __init__.py."""

from clients.torch_client import TorchClient as TorchClient
from fedsuite.arrays import Arrays as Arrays
from fedsuite.arrays import Share as Share
from fedsuite.averaging.exchange import Codec as Codec
from fedsuite.averaging.exchange import Exchange as Exchange
from fedsuite.averaging.local_method import Left as Left
from fedsuite.averaging.local_method import LocalMethod as LocalMethod
from fedsuite.averaging.local_method import Visit as Visit
from fedsuite.averaging.merging import Merged as Merged
from fedsuite.averaging.merging import MergeRule as MergeRule
from fedsuite.averaging.merging import server_step as server_step
from fedsuite.averaging.settings import FedAvgSettings as FedAvgSettings
from fedsuite.averaging.step import Step as Step
from fedsuite.checking import check_client as check_client
from fedsuite.checking import check_environment as check_environment
from fedsuite.checking import check_strategy as check_strategy
from fedsuite.checking import check_topology as check_topology
from fedsuite.driving.data.torch_frames import SteeringFrames as SteeringFrames
from fedsuite.errors import InputError as InputError
from fedsuite.errors import RunFailed as RunFailed
from fedsuite.federation import ClientInfo as ClientInfo
from fedsuite.federation import Reply as Reply
from fedsuite.federation import RoundResult as RoundResult
from fedsuite.federation import RoundStrategy as RoundStrategy
from fedsuite.federation import Selection as Selection
from fedsuite.federation import ServerState as ServerState
from fedsuite.federation import Task as Task
from fedsuite.federation import UnderWay as UnderWay
from fedsuite.fedrl.text2action.torch_texts import LabelledTexts as LabelledTexts
from fedsuite.history import Run as Run
from fedsuite.history import Runs as Runs
from fedsuite.history import load_run as load_run
from fedsuite.history import load_runs as load_runs
from fedsuite.randomness import rng_for as rng_for
from fedsuite.randomness import torch_generator_for as torch_generator_for
from fedsuite.roster.members import Member as Member
from fedsuite.roster.members import Roster as Roster
from fedsuite.roster.members import roster_of as roster_of
from fedsuite.settings.config import RunSettings as RunSettings
from fedsuite.settings.config import section as section
from fedsuite.settings.config import setting as setting
from fedsuite.settings.metrics import Metric as Metric
from fedsuite.vln.data.torch_instructions import Instructions as Instructions
from simulations.app.in_python import report as report
from simulations.app.in_python import run as run
from simulations.check_system import check_system as check_system
from simulations.systems import Node as Node
from simulations.systems import System as System
from simulations.torch_system import torch_system as torch_system
from strategies.fedavg import FedAvg as FedAvg
from strategies.wrapping import Wrapped as Wrapped
from strategies.wrapping import around as around

__version__: str
__all__: list[str]
_PUBLIC: dict[str, tuple[str, ...]]
