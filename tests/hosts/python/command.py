"""Runs a component that is a command, with this process's standard streams: command.py CACHE_CONFIG COMPONENT"""

import sys

from wasmtime import Config, Engine, Store, WasiConfig
from wasmtime.component import Component, Linker


def main() -> None:
    cache, path = sys.argv[1:]
    config = Config()
    config.cache = cache
    engine = Engine(config)
    component = Component.from_file(engine, path)
    linker = Linker(engine)
    linker.add_wasip2()
    store = Store(engine)
    wasi = WasiConfig()
    wasi.inherit_stdin()
    wasi.inherit_stdout()
    wasi.inherit_stderr()
    store.set_wasi(wasi)
    instance = linker.instantiate(store, component)
    names = [name for name in component.type.exports(engine) if name.startswith("wasi:cli/run@")]
    interface = instance.get_export_index(store, names[0])
    run = instance.get_func(store, instance.get_export_index(store, "run", interface))
    run(store)


main()
