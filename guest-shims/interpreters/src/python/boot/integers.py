"""Adapts libraries to a 64-bit default integer in numpy. The recipe's `wide_integers` patches numpy's machine code.
This file changes type names, and the results of functions written in Python. `intp` stays 32 bits wide."""

# Modules whose Python code converts results or arguments to `intp`. Their code is changed to use `int64`.
INDEX_MODULES = """
    numpy._core.numeric numpy.lib._arraysetops_impl numpy.lib._histograms_impl numpy.lib._index_tricks_impl numpy.ma.core
    pandas.core.series scipy.io._mmio scipy.signal._peak_finding scipy.sparse._lil sklearn.cluster._dbscan
    sklearn.datasets._samples_generator sklearn.utils.sparsefuncs
""".split()


def has_wide_integers():
    return sys.modules["numpy._core.multiarray"].dtype(int).itemsize == 8


def with_wide_indices(code):
    if not has_wide_integers():
        return code

    def renamed(each):
        return with_wide_indices(each) if isinstance(each, types.CodeType) else "int64" if each == "intp" else each

    constants, names = map(renamed, code.co_consts), map(renamed, code.co_names)
    return code.replace(co_consts=tuple(constants), co_names=tuple(names))


def wide(result):
    """Converts the indices that a function returns, alone or as the first item of a tuple, to 64 bits."""
    if type(result) is tuple:
        return (wide(result[0]), *result[1:])
    kinds = sys.modules["numpy"]
    return result.astype(kinds.int64) if getattr(result, "dtype", None) == kinds.intp else result


def wide_table(result):
    """Converts the index arrays in the values of a dict, which are tuples, to 64 bits."""
    return {key: tuple(map(wide, indices)) for key, indices in result.items()}


def widen(owner, *names, change=wide):
    """Makes the functions `names` of `owner` return 64-bit indices."""
    if has_wide_integers():
        for name in names:
            setattr(owner, name, returning(change, getattr(owner, name)))


def returning(change, function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        return change(function(*args, **kwargs))

    return call


def aliases_module(module):
    if not has_wide_integers():
        return
    kinds, aliases = module.allTypes, module.sctypeDict
    kinds["int_"] = aliases["int_"] = aliases["int"] = kinds["int64"]
    kinds["uint"] = aliases["uint"] = kinds["uint64"]
    # `randint` uses this name. `numpy.long` stays the C type.
    aliases["long"] = kinds["int64"]


early.update(dict.fromkeys(INDEX_MODULES, with_wide_indices))
late.update({
    "numpy._core._type_aliases": aliases_module,
    "numpy._core.strings": lambda module: widen(
        module, "str_len", "_find_ufunc", "_rfind_ufunc", "_index_ufunc", "_rindex_ufunc", "_count_ufunc"
    ),
    "pandas": lambda module: widen(module, "factorize", "cut", "qcut"),
    "pandas.core.arrays.base": lambda module: widen(module.ExtensionArray, "argsort", "factorize"),
    "pandas.core.arrays.datetimelike": lambda module: widen(module.TimelikeOps, "factorize"),
    "pandas.core.arrays.masked": lambda module: widen(module.BaseMaskedArray, "factorize"),
    "pandas.core.arrays.sparse.array": lambda module: widen(module.SparseArray, "factorize"),
    "pandas.core.base": lambda module: widen(module.IndexOpsMixin, "factorize"),
    "pandas.core.indexes.base": lambda module: widen(module.Index, "argsort"),
    "pandas.core.indexes.range": lambda module: widen(module.RangeIndex, "argsort", "factorize", "searchsorted"),
    "scipy.ndimage._measurements": lambda module: widen(module, "value_indices", change=wide_table),
    "scipy.signal._peak_finding": lambda module: widen(module, "find_peaks"),
})
