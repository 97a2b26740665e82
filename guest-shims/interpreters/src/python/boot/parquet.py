"""`read_parquet` and `to_parquet` for pandas, which has neither pyarrow nor fastparquet here. The engine consists of
several modules (`../parquet`), which run when a script first reads or writes Parquet. `PARQUET_SOURCES` precedes this
file (see boot.rs)."""

parquet_code = {name: compile(text, DRIVER_NAME, "exec", 0, True) for name, text in PARQUET_SOURCES.items()}
parquet_modules = {}
del PARQUET_SOURCES


def parquet_module(name):
    """Returns a module of the engine. Each module has the others as globals."""
    if not parquet_modules:
        modules = {each: types.ModuleType("pandas.io._parquet_" + each) for each in parquet_code}
        for each, module in modules.items():
            module.__dict__.update({other: modules[other] for other in modules if other != each})
        for each, module in modules.items():
            exec(parquet_code[each], module.__dict__)
        parquet_modules.update(modules)
    return parquet_modules[name]


def provide_parquet(module):
    find_engine = module.get_engine

    @functools.wraps(find_engine)
    def get_engine(engine):
        try:
            return find_engine(engine)
        except ImportError:
            if engine != "auto" or sys.modules["pandas"].get_option("io.parquet.engine") != "auto":
                raise
        return parquet_module("engine").Engine()

    module.get_engine = get_engine


late["pandas.io.parquet"] = provide_parquet
