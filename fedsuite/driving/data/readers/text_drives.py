"""Formats whose labels are one text table.

    udacity_sim   driving_log.csv and IMG/: center,left,right,steering,throttle,brake,speed, usually without a header; some
                  recordings keep fewer. The centre camera is read, side cameras are not (their angle is not recorded).
                  Steering is a fraction of full lock (25 degrees), [-1, 1], RIGHT POSITIVE; it is negated here.
    udacity_real  interpolated.csv and center/ (recordings of Udacity's car and of Gazebo, exported frame by frame), with a
                  header; one row per frame of every camera, of which the centre one is kept, or else the only one. Angle:
                  radians of the steering wheel, LEFT POSITIVE; kept as it is.
    dronet        sync_steering.txt and images/ (Loquercio et al. 2018): a header line, then rows whose column 0 is the
                  angle. Row n belongs to the n-th image once images are sorted by the first integer in their names.
                  Angle: radians of the steering wheel (Udacity's bags), LEFT POSITIVE; kept.
    csv           any other CSV or TSV file with a header that names the columns image and angle, paths relative to it; sign
                  and unit are not fixed by the format: ReadOptions.positive says the sign, the unit is taken for radians,
                  unless the columns are those of a known program (recorders.py).

Columns may have other common names (tables.py), and pictures lie in another usual folder, or beside the table (rows.py).
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedsuite.driving.data.readers.angles import FRACTION, RADIANS, WHEEL, assumed, law_of
from fedsuite.driving.data.readers.drive import (
    IMAGE_SUFFIXES,
    LEFT,
    RIGHT,
    Drive,
    ReadOptions,
    first_of,
    name_of,
    visible,
)
from fedsuite.driving.data.readers.recorders import Recorder, recorder_of
from fedsuite.driving.data.readers.rows import BadRows, kept_frames, located
from fedsuite.driving.data.readers.tables import Row, body, header_of, read_rows
from fedsuite.errors import InputError
from fedsuite.settings.values import is_number

CENTER = ("center_camera", "center")
MOVING = ("torque", "speed")
NUMBERS = ("steering", "throttle", "brake", "speed")


@dataclass(frozen=True)
class Chosen:
    """What is read of all rows: columns of image and angle, where pictures may lie, what people should know; by: the
    program that wrote them, where the format does not say."""

    rows: Sequence[Row]
    columns: Sequence[int]
    folders: tuple[str, ...]
    notes: tuple[str, ...] = ()
    by: Recorder | None = None


class TextDrive:
    """A format with the table LOG, whose images are in FOLDER."""

    KIND: str
    LOG: str
    FOLDER: str
    COLUMNS: tuple[str, ...]
    UNIT = WHEEL
    POSITIVE = LEFT

    def matches(self, folder: Path) -> bool:
        return os.path.lexists(folder / self.LOG)  # what is no file is named when it is read

    def read(self, folder: Path, options: ReadOptions) -> Drive:
        """All frames, in the table's order."""
        file, bad = self.table(folder), BadRows(options.drop)
        chosen = self.chosen(file, read_rows(file), bad)
        image, angle = chosen.columns
        names, values = ([row.fields[i] for row in chosen.rows] for i in (image, angle))
        images = self.images(file, names, chosen.folders)
        open_, by = () if self.POSITIVE else assumed(options), chosen.by
        notes = (by.note(file),) if by and open_ else ()
        unit, positive = self.UNIT, self.POSITIVE or options.positive
        if by and by.sure:
            # A sign that drives.toml turns round is that of the run.
            unit, positive = by.unit, positive if options.flip_sign else by.positive
            open_ = ()
        law = law_of(unit, positive, options)
        places = [row.place for row in chosen.rows]
        angles, kept = kept_frames(file, places, values, law, bad, images)
        paths = tuple(path for i in kept.tolist() if (path := images[i]) is not None)
        return Drive(
            name_of(folder), self.KIND, angles, law.unit, law.sign, paths, limit=law.limit,
            left_out=len(bad.told), notes=(*chosen.notes, *notes, *bad.notes(file)), assumed=open_,
        )  # fmt: skip

    def table(self, folder: Path) -> Path:
        return folder / self.LOG

    def chosen(self, file: Path, rows: Sequence[Row], bad: BadRows) -> Chosen:
        return Chosen(*body(file, rows, self.COLUMNS, bad), (self.FOLDER,))

    def images(
        self, file: Path, names: Sequence[str], folders: Sequence[str]
    ) -> Sequence[Path | None]:
        """One path a row."""
        return located(file, names, folders)


class UdacitySim(TextDrive):
    """Udacity's simulator. Without a header the angle follows the leading image columns, however many were kept."""

    KIND, LOG, FOLDER = "udacity_sim", "driving_log.csv", "IMG"
    COLUMNS = ("center", "steering")
    UNIT, POSITIVE = FRACTION, RIGHT

    def chosen(self, file: Path, rows: Sequence[Row], bad: BadRows) -> Chosen:
        if not rows:
            raise InputError(f"{file}: no frames; record again or remove this drive")
        pictures = [field.lower().endswith(IMAGE_SUFFIXES) for field in rows[0].fields]
        if not pictures[0]:
            return super().chosen(file, rows, bad)
        if all(pictures):
            raise InputError(f"{file}: {rows[0].place} has no steering column; add the angles")
        images = pictures.index(False)
        # A number with a point is whole; where there is none, the simulator's four may have been split at commas.
        sure = [row for row in rows if any("." in field for field in row.fields[images:])]
        count = len(sure[0].fields) - images if sure else min(len(pictures) - images, len(NUMBERS))
        names = ["center", *["camera"] * (images - 1), *[*NUMBERS, *["more"] * count][:count]]
        return super().chosen(file, [Row("", tuple(names)), *rows], bad)


class UdacityReal(TextDrive):
    KIND, LOG, FOLDER = "udacity_real", "interpolated.csv", "center"

    def chosen(self, file: Path, rows: Sequence[Row], bad: BadRows) -> Chosen:
        header = header_of(rows)
        rows, (camera, *columns) = body(file, rows, ("frame_id", "filename", "angle"), bad)
        bad.found(file, *(f"{row.place} has no frame_id" for row in rows if not row.fields[camera]))
        cameras = list(dict.fromkeys(row.fields[camera] for row in rows if row.fields[camera]))
        centre = [name for name in cameras if name.strip("/").lower() in CENTER]
        used = centre or cameras
        if len(cameras) > 1 and not centre:
            raise InputError(
                f"{file}: no row has frame_id {CENTER[0]}, and there are {len(used)} others ({', '.join(used[:5])}); keep "
                "the rows of one camera"
            )
        early = _before_steering(
            rows, [columns[1], *(header.index(n) for n in MOVING if n in header)]
        )
        kept = [row for row in rows[early:] if row.fields[camera] in used]
        own = [part for name in used for part in (name, name.removesuffix("_camera"))]
        folders = (self.FOLDER, *(part.strip("/") for part in own))
        alone = f"{file}: the only camera, {', '.join(used)}, is taken for the centre one"
        unknown = f"{file}: the first {early} rows, with angle, torque and speed 0, are older than the steering: left out"
        notes = ([] if centre or not used else [alone]) + [unknown][:early]
        return Chosen(kept, columns, folders, tuple(notes))


def _before_steering(rows: Sequence[Row], columns: Sequence[int]) -> int:
    """How many rows at the start are 0 in angle, torque and speed, with which the exporter fills what is not known yet."""
    if len(columns) <= len(MOVING):
        return 0
    known = (any(row.fields[c].strip("0.-") for c in columns) for row in rows)
    return next((number for number, is_known in enumerate(known) if is_known), 0)


class Dronet(TextDrive):
    KIND, LOG, FOLDER = "dronet", "sync_steering.txt", "images"

    def chosen(self, file: Path, rows: Sequence[Row], bad: BadRows) -> Chosen:
        if rows and is_number(rows[0].fields[0]):
            raise InputError(
                f"{file}: line 1 holds numbers where a header line is expected; add one, or the first angle would be lost"
            )
        # Rows and images go by order, so that no row may be left out here.
        return Chosen(*body(file, rows, (0, 0) if rows else ("angle",), BadRows()), (self.FOLDER,))

    def images(
        self, file: Path, names: Sequence[str], folders: Sequence[str]
    ) -> Sequence[Path | None]:
        folder = file.parent / folders[0]
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder; DroNet's format keeps images there")
        by_number: dict[int, Path] = {}
        for path in visible(folder):
            if path.suffix.lower() not in IMAGE_SUFFIXES:
                continue
            number = re.search(r"\d+", path.name)
            if number is None:
                raise InputError(
                    f"{path}: no number in its name, so its row is unknown; rename or remove it"
                )
            other = by_number.setdefault(int(number.group()), path)
            if other != path:
                raise InputError(
                    f"{path}: same number as {other.name}, so its row is unknown; rename or remove one"
                )
        if names and len(by_number) != len(names):
            raise InputError(
                f"{file}: {len(names)} angles but {len(by_number)} images in images/; rows and images go by order, so add "
                "or remove what is missing"
            )
        return [by_number[number] for number in sorted(by_number)]


class ImageCsv(TextDrive):
    """One CSV file with header image,angle that is not another format's."""

    KIND, UNIT, POSITIVE = "csv", RADIANS, ""
    COLUMNS = ("image", "angle")

    def matches(self, folder: Path) -> bool:
        return bool(self._files(folder))

    def table(self, folder: Path) -> Path:
        return first_of(self._files(folder), "CSV file of image,angle", folder)

    def _files(self, folder: Path) -> list[Path]:
        others = (UdacitySim.LOG, UdacityReal.LOG)
        files = [*visible(folder, "*.csv"), *visible(folder, "*.tsv")]
        return [path for path in files if path.name not in others]

    def chosen(self, file: Path, rows: Sequence[Row], bad: BadRows) -> Chosen:
        fitted, columns = body(file, rows, self.COLUMNS, bad)
        header = header_of(rows)
        image, angle = columns
        by = recorder_of(header, header[image], header[angle], [r.fields[image] for r in fitted])
        return Chosen(fitted, columns, (), by=by)

    def images(
        self, file: Path, names: Sequence[str], folders: Sequence[str]
    ) -> Sequence[Path | None]:
        return located(file, names, folders, written_first=True)
