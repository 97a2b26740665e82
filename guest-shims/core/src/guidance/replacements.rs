//! Modules that do not exist in a runtime, and their replacements.

use super::has_word;

/// Well-known modules that do not exist here, separated by spaces, and their replacements.
pub(super) const INSTEAD: &[(&str, &str)] = &[
    (
        "numpy scipy xarray",
        "Use lists with `math`, `statistics`, `itertools` and `array`. The limits allow millions of numbers.",
    ),
    (
        "pandas polars pyarrow duckdb",
        "Use `csv` and dictionaries, `openpyxl` for workbooks, or an in-memory `sqlite3` database for joins and groups.",
    ),
    ("bs4 lxml html5lib", "Use `html.parser` for HTML and `xml.etree.ElementTree` for XML."),
    ("yaml ruamel", "Use `yaml_load` and `yaml_dump` from `sandbox_utils`, or `json`."),
    (
        "matplotlib seaborn plotly PIL cv2 imageio qrcode barcode segno",
        "Write the picture as SVG text, or print the numbers as a table.",
    ),
    (
        "sklearn torch tensorflow keras xgboost transformers",
        "Write the calculation in plain Python with `math` and `statistics`.",
    ),
    ("pytz pendulum arrow", "Use `datetime`, and `dateutil` for time zones."),
    ("xlrd xlwt pyexcel", "Use `openpyxl` to read and `xlsxwriter` or `openpyxl` to write."),
    ("docx", "Use `mammoth` to read the document as HTML or text."),
    ("pypdf fitz pdfplumber pdfminer", "Use `PyPDF2`."),
    ("odf ezodf", "An OpenDocument file is a zip archive of XML: use `zipfile` and `xml.etree.ElementTree`."),
    ("chardet cchardet", "Use `charset_normalizer`."),
    ("mistune markdown2 commonmark", "Use `markdown`."),
    ("mako chevron pystache", "Use `jinja2`."),
    ("prettytable texttable", "Use `tabulate`."),
    ("toml", "Use `tomllib`."),
    ("regex", "Use `re`."),
    ("simplejson ujson orjson", "Use `json`."),
    ("click typer docopt", "Use `argparse`."),
    ("pytest nose", "Use `unittest`, or plain `assert`."),
    ("tqdm rich colorama termcolor", "Print plain text, without colours or progress bars."),
    ("ctypes cffi _ctypes", "Scripts cannot call native code. Write that part in Python."),
    (
        "tkinter turtle curses _curses readline termios tty pty webbrowser",
        "The sandbox has no screen and no user. Read input from files or standard input, and print the result.",
    ),
    (
        "fcntl pwd grp resource syslog winreg msvcrt",
        "The sandbox has no operating system services. Use files in `/app`.",
    ),
    (
        "pip ensurepip venv setuptools pkg_resources",
        "Scripts cannot install packages. Write the code that you need, or ask the operator to add the package (`glovebox packages add`).",
    ),
    ("lzma _lzma compression zstandard brotli", "Use `zlib`, `gzip` or `bz2`."),
    ("mmap", "Read the file with `open`."),
    ("joblib", "Use a loop, or `concurrent.futures`: its pools run tasks in order."),
    ("nest_asyncio", "Remove the import, and use `await` outside functions."),
    ("sympy mpmath gmpy2", "Use `fractions`, `decimal`, `math` and `cmath`."),
    ("networkx", "Use dictionaries with `heapq`, `collections` and `graphlib`."),
    ("statsmodels", "Use `statistics`, which includes linear regression."),
    ("more_itertools toolz cytoolz", "Use `itertools` and `functools`."),
    ("typing_extensions", "Use `typing`."),
    ("cloudpickle dill msgpack", "Use `pickle` or `json`."),
    ("xmltodict", "Use `xml.etree.ElementTree`, or `xml_to_dict` from `sandbox_utils`."),
    ("tomli_w", "Write the text with `print`, or use `json`."),
    ("reportlab fpdf", "Write the document as HTML or SVG text."),
    // Modules that were removed from Python.
    ("imp", "Use `importlib`."),
    ("distutils", "Use `shutil`, `sysconfig` and `importlib.metadata`."),
    ("asyncore asynchat smtpd", "Use `asyncio`."),
    ("cgi cgitb", "Use `urllib.parse`, `email.message` and `traceback`."),
    ("crypt", "Use `hashlib`."),
    ("pipes", "Use `shlex` for quoting."),
    ("imghdr sndhdr mailcap", "Use `mimetypes`, or compare the first bytes of the file."),
    ("uu", "Use `binascii`."),
    ("xdrlib", "Use `struct`."),
    ("lib2to3", "Use `ast`."),
    ("audioop aifc sunau chunk", "Use `wave` and `struct`."),
];

/// The import names that the runtime `python-3.15-data` adds.
pub(super) const IN_DATA_RUNTIME: &str = "\
    PIL bs4 cloudpickle html5lib joblib lxml matplotlib more_itertools mpmath networkx numpy packaging pandas \
    pyparsing pypdf regex reportlab scipy seaborn sklearn statsmodels sympy tomli_w toolz tqdm \
    typing_extensions xlrd xmltodict yaml";

/// Well-known packages that do not exist here and whose names resemble those of other modules. These names are not
/// treated as misspellings.
pub(super) const RESEMBLING: &str = "\
    Bio GPUtil ase bidict cssselect diskcache dns docker graphviz inflect keyboard lime passlib platformdirs pydot \
    pylint scs sktime structlog sunpy tabula tokenizers";

/// Replacements in an interpreter that has the packages in [`IN_DATA_RUNTIME`].
pub(super) const INSTEAD_WITH_DATA: &[(&str, &str)] = &[
    ("polars pyarrow duckdb dask modin vaex", "Use `pandas`, or an in-memory `sqlite3` database."),
    ("plotly altair bokeh pygal", "Use `matplotlib` or `seaborn`. Figures that are still open at the end are shown."),
    ("cv2 imageio skimage wand", "Use `PIL` (Pillow), `numpy` and `scipy.ndimage`."),
    (
        "torch tensorflow keras xgboost lightgbm catboost transformers jax",
        "Use `sklearn` (scikit-learn), which has trees, boosting, linear models and small neural networks, or `numpy`.",
    ),
    ("xarray", "Use `numpy` or `pandas`."),
    ("numba cupy", "Use `numpy` with vectorized operations."),
    ("fitz pdfplumber pdfminer", "Use `pypdf`."),
    ("rich colorama termcolor", "Print plain text, or use `tqdm` for progress."),
    ("ruamel", "Use `yaml`."),
    ("fpdf", "Use `reportlab`."),
    ("gmpy2", "Use `mpmath` or `sympy`."),
    ("dill", "Use `cloudpickle`."),
    ("cytoolz", "Use `toolz`."),
];

/// Returns the replacement of a module or global.
pub(super) fn replacement(table: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    table.iter().find(|(names, _)| has_word(names, name)).map(|(_, instead)| *instead)
}

/// Returns the modules that advice suggests in place of missing Python modules. Tests import each of these modules.
pub fn substitutes(has_data_packages: bool) -> impl Iterator<Item = &'static str> {
    const NO_MODULES: [&str; 7] = ["assert", "await", "open", "print", "xml_to_dict", "yaml_dump", "yaml_load"];
    let with_data = INSTEAD_WITH_DATA.iter().filter(move |_| has_data_packages).map(|(_, instead)| *instead);
    let texts = INSTEAD.iter().map(|(_, instead)| *instead).chain(with_data);
    texts.flat_map(|text| text.split('`').skip(1).step_by(2)).filter(|word| {
        word.chars().all(|char| char.is_alphanumeric() || matches!(char, '_' | '.')) && !NO_MODULES.contains(word)
    })
}

pub(super) const DATA_RUNTIME: &str = "Ask the operator to add the runtime that includes it (`glovebox runtimes add python-3.15-data`), and run the script unchanged.";
