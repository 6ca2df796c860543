from abc import ABC, abstractmethod

from .protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse

class BaseSandbox(ABC):
    @abstractmethod
    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse: ...
    @property
    @abstractmethod
    def id(self) -> str: ...
    @abstractmethod
    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]: ...
    @abstractmethod
    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]: ...
