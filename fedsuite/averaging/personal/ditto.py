"""Ditto (Li et al. 2021, 2012.04221, Algorithm 1): beside the common model a client's own one, drawn to it.

  w        the server's model; a visit trains it as FedAvg does, and only that is sent
  v_k      the client's own model, the server's at first, with which the client is scored
  lambda   `ditto-strength`: 0 = training alone, large = the server's model

  v_k minimises f_k(v) + lambda / 2 ||v - w||^2, from where the last visit left it                              (h_k, eq. 1)

The own model takes as many steps as the common one, on mini-batches of its own: a visit costs twice the time, and the
`steps` of the reply count what is sent.
"""

from fedsuite.arrays import Arrays
from fedsuite.averaging.local_method import Left, LocalMethod, Visit


def train(visit: Visit) -> Left:
    """Both models train as long."""
    from fedsuite.averaging.penalties import Proximal  # it brings torch

    toward = Proximal(visit.settings.federation.ditto_strength)
    start, anchor = visit.kept or visit.received, visit.received
    own = visit.learn(start, toward=toward, anchor=anchor, stream="own")
    sent = visit.learn(visit.received)
    return Left(sent.model, sent.report, own.model)


def scored(received: Arrays, kept: Arrays) -> Arrays:
    """With the own model, or the server's where there is none yet."""
    return kept or received


DITTO = LocalMethod(train, scored)
