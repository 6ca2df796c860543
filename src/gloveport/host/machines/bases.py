"""What a machine begins with: `image`, `from_template`, `from_snapshot`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import SandboxImageError, TemplateNotFoundError, ValidationError
from ...machines.copies import find_snapshot
from ...machines.estate import Estate, image_options
from ...machines.images.host import host_image
from ...machines.images.manifests import Image
from ...machines.spec import Image as Root
from .progress import say

__all__ = ("ImageSource", "base_of", "import_image", "stored_image")

ImageSource = str | os.PathLike[str]


def base_of(estate: Estate, image: ImageSource | None, template: str | None, snapshot: str | None) -> Mapping[str, Any]:
    """The image, as the registry keeps it, and what else comes with it. Raises `ValidationError`, `TemplateNotFoundError`,
    `SnapshotNotFoundError`, and `SandboxImageError` for an archive that cannot be read."""
    if sum(value is not None for value in (image, template, snapshot)) > 1:
        raise ValidationError("`image`, `from_template` and `from_snapshot` exclude each other")
    if snapshot is not None:
        return find_snapshot(estate, snapshot).options
    if template is not None:
        return _options(estate, _named(estate, template))
    if image is None or image == "host":
        return {"image": image_options(estate.root, host_image(estate.root))}
    if isinstance(image, str) and "/" not in image and not os.path.lexists(image):
        return _options(estate, _named(estate, image))
    return _options(estate, import_image(estate, image))


def _named(estate: Estate, name: str) -> Image:
    found = stored_image(estate, name)
    if found is not None:
        return found
    if name == "debian":
        from .debian import make_debian

        return make_debian(estate, say=say)
    known = ", ".join(sorted({"host", "debian", *(image.name for image in estate.images.all())}))
    raise TemplateNotFoundError(f"no image or template {name!r}", hint=f"there are: {known}")


def stored_image(estate: Estate, name: str) -> Image | None:
    """An image by its name, if it and all of its layers are here."""
    try:
        image = estate.images.get(name)
    except ValueError as error:
        raise ValidationError(str(error)) from error
    return image if image is not None and all(layer in estate.layers for layer in image.layers) else None


def import_image(estate: Estate, path: ImageSource, name: str | None = None) -> Image:
    """The image in a file or folder, read once for as long as that does not change."""
    from ...machines.images.fitting import fitted
    from ...machines.images.oci import import_archive

    place = Path(path).absolute()
    try:
        info = place.stat()
    except OSError as error:
        raise SandboxImageError(f"there is no image {str(path)!r}: {error.strerror}") from error
    key = f"{place}\0{info.st_dev} {info.st_ino} {info.st_size} {info.st_mtime_ns}"
    name = name or f"file/{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()[:24]}"
    if name.startswith("file/") and not place.is_dir():  # what is in a folder can change without it
        kept = stored_image(estate, name)
        if kept is not None:
            return kept
    try:
        made = import_archive(place, name, estate.layers, say=say)
    except (ValueError, OSError) as error:
        raise SandboxImageError(f"the image {str(path)!r} cannot be read: {error}") from error
    return estate.images.put(fitted(estate.layers, made))


def _options(estate: Estate, image: Image) -> Mapping[str, Any]:
    root = Root(
        name=image.name,
        layers=tuple(estate.layers.path(layer) for layer in image.layers),
        binds=tuple((folder, folder) for folder in image.binds),
        keep=tuple(image.keep),
        env=image.env,
        workdir=image.workdir if os.path.isabs(image.workdir) else "/workspace",
    )
    return {"image": image_options(estate.root, root), "user": image.user or None}
