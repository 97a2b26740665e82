"""The engine that pandas uses for Parquet without pyarrow and fastparquet. Runs inside the guest, with pandas.

`frame` and `write` are modules of this package.
"""

import io
import os

from pandas._libs import lib
from pandas.io.common import get_handle, stringify_path
from pandas.io.parquet import BaseImpl

READ_OPTIONS = {"use_threads", "memory_map", "buffer_size", "pre_buffer", "use_pandas_metadata"}  # change no result


class Engine(BaseImpl):
    def write(
        self, df, path, compression="snappy", index=None, storage_options=None, partition_cols=None, filesystem=None,
        row_group_size=None, **options,
    ):  # fmt: skip
        self.validate_dataframe(df)
        if partition_cols is not None:
            raise ValueError("`partition_cols` is not supported; write one file for each group of `df.groupby`")
        refuse(filesystem, options)
        parts = write.write_frame(df, compression, index, row_group_size)
        with OpenFile(path, "wb", storage_options) as file:
            for part in parts:
                file.write(part)

    def read(
        self, path, columns=None, filters=None, dtype_backend=lib.no_default, storage_options=None, filesystem=None,
        to_pandas_kwargs=None, **options,
    ):  # fmt: skip
        refuse(filesystem, {name: value for name, value in options.items() if name not in READ_OPTIONS})
        if to_pandas_kwargs:
            raise ValueError("`to_pandas_kwargs` is not supported without pyarrow")
        if dtype_backend == "pyarrow":
            raise ImportError("dtype_backend='pyarrow' needs pyarrow, which is not installed; use 'numpy_nullable'")
        with OpenFile(path, "rb", storage_options) as file:
            return frame.read_frame(file, columns, filters, dtype_backend)


def refuse(filesystem, options):
    if filesystem is not None:
        raise ValueError("`filesystem` is not supported without pyarrow")
    if options:
        raise TypeError(f"`{next(iter(options))}` is not supported without pyarrow; leave it out")


class OpenFile:
    """A context manager that opens a path, and leaves the caller's files open."""

    def __init__(self, path, mode, storage_options):
        path = stringify_path(path)
        if isinstance(path, str) and os.path.isdir(path):
            raise IsADirectoryError(f"{path!r} is a directory; use single files, and join them with `pd.concat`")
        self.handles = get_handle(path, mode, is_text=False, storage_options=storage_options)
        self.mode = mode

    def __enter__(self):
        file = self.handles.handle
        if self.mode == "rb" and not hasattr(file, "seekable"):
            file = io.BytesIO(file.read())
        return file

    def __exit__(self, *_):
        self.handles.close()
