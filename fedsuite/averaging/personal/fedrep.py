"""FedRep (Collins et al. 2021, 2102.07078): a client fits its own head to the common body, then the body to its head.

  body, head   the share of the model (`federation.share`), and what stays with the client
  s, s_h       steps of a visit; s_h = ceil(head-steps s) of them are the head's

A visit takes s_h steps of the head while the body stands still, then s - s_h of the body while the head stands still. What
stands still has no gradient: no penalty pulls it and its optimizer state stays as it was. Without a visit's two halves this
is FedPer (Arivazhagan et al. 2019, 1912.00818): `local-method = "plain"` with the same share.
"""

import math

from fedsuite.arrays import Share
from fedsuite.averaging.local_method import Left, LocalMethod, Visit


def train(visit: Visit) -> Left:
    """The report is the body's, with the steps of both."""
    held = math.ceil(visit.settings.federation.head_steps * visit.steps)
    names = [k for k in visit.received if not visit.share.covers(k)]
    head = Share(tuple(f"{name}." for name in names))
    fitted = visit.learn(visit.received, held, only=head, stream="head")
    learnt = visit.learn(fitted.model, visit.steps - held, only=visit.share)
    return Left(learnt.model, {**learnt.report, "steps": visit.steps})


FEDREP = LocalMethod(train, keeps=False, needs_head=True)
