"""Formats whose labels are one text table.

    udacity_sim   driving_log.csv and IMG/: center,left,right,steering,throttle,brake,speed, usually without a header; some
                  recordings keep fewer. The centre camera is read, side cameras are not (their angle is not recorded).
                  Steering is a fraction of full lock (25 degrees), [-1, 1], RIGHT POSITIVE; it is negated here.
    udacity_real  interpolated.csv and center/ (Udacity's road recordings, exported frame by frame), with a header; one row
                  per frame of every camera, of which the centre one is kept. Angle: radians of the steering wheel, LEFT
                  POSITIVE; kept as it is. A wheel turns further than pi in tight bends: set angle_limit, or angle_scale
                  to the steering ratio's inverse.
    dronet        sync_steering.txt and images/ (Loquercio et al. 2018): a header line, then rows whose column 0 is the
                  angle. Row n belongs to the n-th image once images are sorted by the first integer in their names.
                  Angle: radians of the steering wheel (Udacity's bags), LEFT POSITIVE; kept.
    csv           any other CSV file with a header that names the columns image and angle, paths relative to it; sign and
                  unit are not fixed by the format: ReadOptions.positive says the sign, the unit is taken for radians.

Of image paths in udacity_* the last part counts: they are those of the recording machine, often absolute Windows paths.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from fedsuite.driving.data.readers.drive import (
    IMAGE_SUFFIXES,
    LEFT,
    RIGHT,
    Drive,
    ReadOptions,
    base_name,
    checked_angles,
    checked_images,
    first_of,
    visible,
)
from fedsuite.driving.data.readers.tables import Row, body, column, read_rows
from fedsuite.errors import InputError
from fedsuite.values import is_number

CENTER = ("center_camera", "center")
NUMBERS = ("steering", "throttle", "brake", "speed")
Chosen = tuple[Sequence[Row], Sequence[int]]  # rows of frames, columns of image and angle


class TextDrive:
    """A format with the table LOG, whose images are in FOLDER."""

    KIND: str
    LOG: str
    FOLDER: str
    COLUMNS: tuple[str, ...]
    UNIT = "radians of the steering wheel"
    POSITIVE = LEFT

    def matches(self, folder: Path) -> bool:
        return (folder / self.LOG).is_file()

    def read(self, folder: Path, options: ReadOptions) -> Drive:
        """All frames, in the table's order."""
        file = self.table(folder)
        rows, (image, angle) = self.chosen(file, read_rows(file))
        places = [row.place for row in rows]
        positive = self.POSITIVE or options.positive
        angles = checked_angles(file, column(file, rows, angle), places, positive, options)
        paths = self.images(file, rows, image, places)
        negated = ", negated" if self.POSITIVE == RIGHT else ""
        sign = f"{positive} positive in the source{negated}"
        return Drive(folder.resolve().name, self.KIND, angles, self.UNIT, sign, paths)

    def table(self, folder: Path) -> Path:
        return folder / self.LOG

    def chosen(self, file: Path, rows: Sequence[Row]) -> Chosen:
        """What is read of all rows."""
        return body(file, rows, self.COLUMNS)

    def images(
        self, file: Path, rows: Sequence[Row], image: int, places: Sequence[str]
    ) -> tuple[Path, ...]:
        names = map(base_name, column(file, rows, image))
        return checked_images(file, [file.parent / self.FOLDER / name for name in names], places)


class UdacitySim(TextDrive):
    """Udacity's simulator. Without a header the angle follows the leading image columns, however many were kept."""

    KIND, LOG, FOLDER = "udacity_sim", "driving_log.csv", "IMG"
    COLUMNS = ("center", "steering")
    UNIT, POSITIVE = "fraction of full lock", RIGHT

    def chosen(self, file: Path, rows: Sequence[Row]) -> Chosen:
        if not rows:
            raise InputError(f"{file}: no frames; record again or remove this drive")
        pictures = [field.lower().endswith(IMAGE_SUFFIXES) for field in rows[0].fields]
        if not pictures[0]:
            return body(file, rows, self.COLUMNS)
        if all(pictures):
            raise InputError(f"{file}: {rows[0].place} has no steering column; add the angles")
        images = pictures.index(False)
        # A number with a point is whole; where there is none, the simulator's four may have been split at commas.
        sure = [row for row in rows if any("." in field for field in row.fields[images:])]
        count = len(sure[0].fields) - images if sure else min(len(pictures) - images, len(NUMBERS))
        names = ["center", *["camera"] * (images - 1), *[*NUMBERS, *["more"] * count][:count]]
        return body(file, [Row("", tuple(names)), *rows], self.COLUMNS)


class UdacityReal(TextDrive):
    KIND, LOG, FOLDER = "udacity_real", "interpolated.csv", "center"

    def chosen(self, file: Path, rows: Sequence[Row]) -> Chosen:
        rows, (camera, *columns) = body(file, rows, ("frame_id", "filename", "angle"))
        cameras = column(file, rows, camera)
        kept = [row for row, name in zip(rows, cameras, strict=True) if name in CENTER]
        if cameras and not kept:
            raise InputError(
                f"{file}: no row has frame_id {CENTER[0]} (first: {cameras[0]}); export the centre camera"
            )
        return kept, columns


class Dronet(TextDrive):
    KIND, LOG, FOLDER = "dronet", "sync_steering.txt", "images"

    def chosen(self, file: Path, rows: Sequence[Row]) -> Chosen:
        if rows and is_number(rows[0].fields[0]):
            raise InputError(
                f"{file}: line 1 holds numbers where a header line is expected; add one, or the first angle would be lost"
            )
        return body(file, rows, [rows[0].fields[0].lower()] * 2 if rows else ["angle"])

    def images(
        self, file: Path, rows: Sequence[Row], image: int, places: Sequence[str]
    ) -> tuple[Path, ...]:
        folder = file.parent / self.FOLDER
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
        if len(by_number) != len(rows):
            raise InputError(
                f"{file}: {len(rows)} angles but {len(by_number)} images in images/; rows and images go by order, so add "
                "or remove what is missing"
            )
        return tuple(by_number[number] for number in sorted(by_number))


class ImageCsv(TextDrive):
    """One CSV file with header image,angle that is not another format's."""

    KIND, UNIT, POSITIVE = "csv", "radians", ""
    COLUMNS = ("image", "angle")

    def matches(self, folder: Path) -> bool:
        return bool(self._files(folder))

    def table(self, folder: Path) -> Path:
        return first_of(self._files(folder), "CSV file of image,angle", folder)

    def _files(self, folder: Path) -> list[Path]:
        others = (UdacitySim.LOG, UdacityReal.LOG)
        return [path for path in visible(folder, "*.csv") if path.name not in others]

    def images(
        self, file: Path, rows: Sequence[Row], image: int, places: Sequence[str]
    ) -> tuple[Path, ...]:
        names = [name.replace("\\", "/") for name in column(file, rows, image)]
        return checked_images(file, [file.parent / name for name in names], places)
