"""CPU time per generated 200 x 200 grey frame, one thread; the ratio is the slowest character's over 1 ms."""

import argparse
from typing import get_args

from benchmarks.report import cpu_seconds, finish, median
from fedsuite import rng_for
from fedsuite.driving.data.rendering.presets import Character
from fedsuite.driving.data.rendering.scene import render, sample_poses, silo_scene
from fedsuite.driving.data.rendering.settings import RoadSettings

GOAL_MS = 1.0
FRAMES, SILOS, REPEATS = 100, 3, 7


def frame_ms(character: Character, channels: int, size_px: int) -> float:
    """Median CPU milliseconds per frame, over several silos' looks."""
    settings = RoadSettings(character, SILOS, size_px=size_px, channels=channels)
    scenes = [silo_scene(settings, silo) for silo in range(SILOS)]
    poses = [sample_poses(scene, FRAMES, rng_for(0, "benchmark")) for scene in scenes]

    def draw() -> None:
        for scene, wanted in zip(scenes, poses, strict=True):
            render(scene, wanted, rng_for(1, "benchmark"))

    return median(cpu_seconds(draw, REPEATS)) / (FRAMES * SILOS) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--channels", type=int, choices=(1, 3), default=1)
    arguments = parser.parse_args()
    times = {
        character: round(frame_ms(character, arguments.channels, arguments.size), 4)
        for character in get_args(Character)
    }
    for character, milliseconds in times.items():
        print(f"{character:8} {milliseconds:.3f} ms a frame ({1000 / milliseconds:,.0f} frames/s)")
    # A goal is reached where the ratio is at most 1: time over the time allowed.
    finish("road_frames", max(times.values()) / GOAL_MS, 1.0, ms=times)


if __name__ == "__main__":
    main()
