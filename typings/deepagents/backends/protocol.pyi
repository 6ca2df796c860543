from dataclasses import dataclass
from typing import Literal

FileOperationError = Literal["file_not_found", "permission_denied", "is_directory", "invalid_path"]

@dataclass
class FileDownloadResponse:
    path: str
    content: bytes | None = None
    error: FileOperationError | str | None = None

@dataclass
class FileUploadResponse:
    path: str
    error: FileOperationError | str | None = None

@dataclass
class ExecuteResponse:
    output: str
    exit_code: int | None = None
    truncated: bool = False
