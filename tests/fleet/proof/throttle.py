"""A TCP proxy in front of the object store. The proxy can delay or refuse traffic."""

from __future__ import annotations

import asyncio
import socket
import struct

CHUNK_BYTES = 64 << 10


class Throttle:
    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._delay_s = 0.0
        self._refuses = False
        self._open: set[asyncio.StreamWriter] = set()
        self._met = 0

    async def listen(self, address: str, port: int) -> None:
        await asyncio.start_server(self._serve, address, port)

    def slow(self, delay_s: float) -> None:
        """Delays every chunk of an answer."""
        self._delay_s = delay_s

    def refuse(self) -> None:
        """Resets the open connections and every new one."""
        self._refuses = True
        for writer in list(self._open):
            self._met += 1
            reset(writer)

    def pass_all(self) -> int:
        """Ends the fault, and returns the number of reset connections and delayed chunks since the last call."""
        self._delay_s = 0.0
        self._refuses = False
        met, self._met = self._met, 0
        return met

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            self._met += 1
            reset(writer)
            return
        try:
            to_reader, to_writer = await asyncio.open_connection(*self._target)
        except OSError:
            reset(writer)
            return
        both = (writer, to_writer)
        self._open.update(both)
        try:
            await asyncio.gather(self._copy(reader, to_writer, delayed=False), self._copy(to_reader, writer, delayed=True))
        except (OSError, asyncio.CancelledError):
            # The peer has disconnected, or the loop has ended.
            pass
        finally:
            self._open.difference_update(both)
            for end in both:
                end.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, delayed: bool) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            if delayed and self._delay_s:
                self._met += 1
                await asyncio.sleep(self._delay_s)
            writer.write(chunk)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


def reset(writer: asyncio.StreamWriter) -> None:
    """Ends a connection with RST, like a host without a listener."""
    end: socket.socket | None = writer.get_extra_info("socket")
    if end is not None:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
