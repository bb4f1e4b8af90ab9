"""Where the vehicle is and how it should steer: laws of poses, and the steering angle of a pose.

Source: pure pursuit (Coulter 1992) on the geometry that the camera sees; the label scale follows the constant baseline of
Do et al. 2024 (CDL), table 2. A pose is (o, psi, kappa, kappa'), float32 [4], all left positive:
    o      lateral offset from the lane centre, m          kappa   curvature of the lane, 1/m
    psi    heading error, rad                              kappa'  its change along the road, 1/m^2
With lookahead Ld, the aim lies e = -o - psi Ld + kappa Ld^2 / 2 + kappa' Ld^3 / 6 metres to the left, and
    angle = ratio * gain * atan(wheelbase * 2 e / Ld^2) + trim,   clipped to +-limit, rad, left positive.
All silos of a character share Ld, wheelbase and gain, so the same picture has the same label; `ratio` and `trim`
differ from 1 and 0 only under concept skew.
"""

from dataclasses import dataclass

import numpy as np

NUM_POSE = 4
TAIL = 3.0  # tighter turns would leave the picture before the lookahead


@dataclass(frozen=True)
class Law:
    """Distribution of poses: kappa ~ Laplace(bias, turn) at p_turn, else N(0, straight); the rest normal."""

    p_turn: float
    turn_per_m: float
    bias_per_m: float
    straight_per_m: float
    offset_sd_m: float
    heading_sd_rad: float
    rate_sd_per_m2: float

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Poses, float32 [n, 4]. Normal parts are cut off at 2.2 sd, turns at 3 scales from their bias."""
        is_turn = rng.random(n) < self.p_turn
        limit = TAIL * self.turn_per_m
        turns = self.bias_per_m + np.clip(rng.laplace(0, self.turn_per_m, n), -limit, limit)
        kappa = np.where(is_turn, turns, rng.normal(0, self.straight_per_m, n))
        o, psi, rate = np.clip(rng.standard_normal((3, n)), -2.2, 2.2)
        scales = (self.offset_sd_m, self.heading_sd_rad, self.rate_sd_per_m2)
        columns = (o * scales[0], psi * scales[1], kappa, rate * scales[2])
        return np.stack(columns, axis=1).astype(np.float32)


@dataclass(frozen=True)
class Steering:
    """From a pose to the angle of the steering wheel (or of the robot's command), see above."""

    lookahead_m: float
    wheelbase_m: float
    gain: float
    limit_rad: float
    ratio: float = 1.0
    trim_rad: float = 0.0

    def angle_rad(self, poses: np.ndarray) -> np.ndarray:
        """float32 [n] of poses [n, 4]."""
        ld = self.lookahead_m
        aim = poses.astype(np.float64) @ np.array([-1.0, -ld, ld**2 / 2, ld**3 / 6])
        angle = self.gain * np.arctan(self.wheelbase_m * 2 * aim / ld**2)
        limited = np.clip(self.ratio * angle + self.trim_rad, -self.limit_rad, self.limit_rad)
        return limited.astype(np.float32)
