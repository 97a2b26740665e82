//! Modules that do not exist in a runtime, and their replacements.

use super::AdviceKind;

/// Well-known modules that do not exist here, with the kind of the advice and the replacement. The kinds `Network` and
/// `Subprocess` have their own steps, so their replacement is empty.
pub(super) const INSTEAD: &[(&[&str], AdviceKind, &str)] = &[
    (
        &["httpx", "aiohttp", "websockets", "websocket", "ssl", "_ssl", "paramiko", "boto3", "grpc"],
        AdviceKind::Network,
        "",
    ),
    (&["_multiprocessing", "_posixshmem", "pexpect", "psutil"], AdviceKind::Subprocess, ""),
    (
        &["numpy", "scipy"],
        AdviceKind::Module,
        "Use lists with `math`, `statistics`, `itertools` and `array`. The limits allow millions of numbers.",
    ),
    (
        &["pandas", "polars", "pyarrow", "duckdb"],
        AdviceKind::Module,
        "Use `csv` and dictionaries, `openpyxl` for workbooks, or an in-memory `sqlite3` database for joins and groups.",
    ),
    (
        &["bs4", "lxml", "html5lib"],
        AdviceKind::Module,
        "Use `html.parser` for HTML and `xml.etree.ElementTree` for XML.",
    ),
    (&["yaml", "ruamel"], AdviceKind::Module, "Use `yaml_load` and `yaml_dump` from `sandbox_utils`, or `json`."),
    (
        &["matplotlib", "seaborn", "plotly", "PIL", "cv2", "imageio"],
        AdviceKind::Module,
        "Write the picture as SVG text, or print the numbers as a table.",
    ),
    (
        &["sklearn", "torch", "tensorflow", "keras", "xgboost", "transformers"],
        AdviceKind::Module,
        "Write the calculation in plain Python with `math` and `statistics`.",
    ),
    (&["pytz", "pendulum", "arrow"], AdviceKind::Module, "Use `datetime`, and `dateutil` for time zones."),
    (
        &["xlrd", "xlwt", "pyexcel"],
        AdviceKind::Module,
        "Use `openpyxl` to read and `xlsxwriter` or `openpyxl` to write.",
    ),
    (&["docx"], AdviceKind::Module, "Use `mammoth` to read the document as HTML or text."),
    (&["pypdf", "fitz", "pdfplumber", "pdfminer"], AdviceKind::Module, "Use `PyPDF2`."),
    (
        &["odf", "ezodf"],
        AdviceKind::Module,
        "An OpenDocument file is a zip archive of XML: use `zipfile` and `xml.etree.ElementTree`.",
    ),
    (&["chardet", "cchardet"], AdviceKind::Module, "Use `charset_normalizer`."),
    (&["mistune", "markdown2", "commonmark"], AdviceKind::Module, "Use `markdown`."),
    (&["mako", "chevron", "pystache"], AdviceKind::Module, "Use `jinja2`."),
    (&["prettytable", "texttable"], AdviceKind::Module, "Use `tabulate`."),
    (&["toml"], AdviceKind::Module, "Use `tomllib`."),
    (&["regex"], AdviceKind::Module, "Use `re`."),
    (&["simplejson", "ujson", "orjson"], AdviceKind::Module, "Use `json`."),
    (&["pytest", "nose"], AdviceKind::Module, "Use `unittest`, or plain `assert`."),
    (
        &["tqdm", "rich", "colorama", "termcolor"],
        AdviceKind::Module,
        "Print plain text, without colours and progress bars.",
    ),
    (&["ctypes", "cffi", "_ctypes"], AdviceKind::Module, "Scripts cannot call native code. Write that part in Python."),
    (
        &["tkinter", "turtle", "curses", "_curses", "readline", "termios", "tty", "pty", "webbrowser"],
        AdviceKind::Module,
        "The sandbox has no screen and no user. Read input from files or standard input, and print the result.",
    ),
    (
        &["fcntl", "pwd", "grp", "resource", "syslog", "winreg", "msvcrt"],
        AdviceKind::Module,
        "The sandbox has no operating system services. Use files in `/app`.",
    ),
    (
        &["pip", "ensurepip", "venv", "setuptools", "pkg_resources"],
        AdviceKind::Module,
        "Scripts cannot install packages. Write the code that you need, or ask the operator to add the package (`glovebox packages add`).",
    ),
    (&["lzma", "_lzma", "compression", "zstandard", "brotli"], AdviceKind::Module, "Use `zlib`, `gzip` or `bz2`."),
    (&["mmap"], AdviceKind::Module, "Read the file with `open`."),
    (&["joblib"], AdviceKind::Module, "Use a loop, or `concurrent.futures`: its pools run tasks in order."),
    (&["nest_asyncio"], AdviceKind::Module, "Remove the import, and use `await` outside functions."),
    (&["sympy", "mpmath", "gmpy2"], AdviceKind::Module, "Use `fractions`, `decimal`, `math` and `cmath`."),
    (&["networkx"], AdviceKind::Module, "Use dictionaries with `heapq`, `collections` and `graphlib`."),
    (&["statsmodels"], AdviceKind::Module, "Use `statistics`, which includes linear regression."),
    (&["more_itertools", "toolz", "cytoolz"], AdviceKind::Module, "Use `itertools` and `functools`."),
    (&["typing_extensions"], AdviceKind::Module, "Use `typing`."),
    (&["cloudpickle", "dill", "msgpack"], AdviceKind::Module, "Use `pickle` or `json`."),
    (&["xmltodict"], AdviceKind::Module, "Use `xml.etree.ElementTree`, or `xml_to_dict` from `sandbox_utils`."),
    (&["tomli_w"], AdviceKind::Module, "Write the text with `print`, or use `json`."),
    (&["reportlab", "fpdf"], AdviceKind::Module, "Write the document as HTML or SVG text."),
    // Modules that were removed from Python.
    (&["imp"], AdviceKind::Module, "Use `importlib`."),
    (&["distutils"], AdviceKind::Module, "Use `shutil`, `sysconfig` and `importlib.metadata`."),
    (&["asyncore", "asynchat", "smtpd"], AdviceKind::Module, "Use `asyncio`."),
    (&["telnetlib", "nntplib"], AdviceKind::Network, ""),
    (&["cgi", "cgitb"], AdviceKind::Module, "Use `urllib.parse`, `email.message` and `traceback`."),
    (&["crypt"], AdviceKind::Module, "Use `hashlib`."),
    (&["pipes"], AdviceKind::Module, "Use `shlex` for quoting."),
    (&["imghdr", "sndhdr", "mailcap"], AdviceKind::Module, "Use `mimetypes`, or compare the first bytes of the file."),
    (&["uu"], AdviceKind::Module, "Use `binascii`."),
    (&["xdrlib"], AdviceKind::Module, "Use `struct`."),
    (&["lib2to3"], AdviceKind::Module, "Use `ast`."),
    (&["audioop", "aifc", "sunau", "chunk"], AdviceKind::Module, "Use `wave` and `struct`."),
];

/// The import names that the runtime `python-3.15-data` adds.
pub(super) const IN_DATA_RUNTIME: &[&str] = &[
    "PIL",
    "bs4",
    "cloudpickle",
    "html5lib",
    "joblib",
    "lxml",
    "matplotlib",
    "more_itertools",
    "mpmath",
    "networkx",
    "numpy",
    "packaging",
    "pandas",
    "pyparsing",
    "pypdf",
    "regex",
    "reportlab",
    "scipy",
    "seaborn",
    "sklearn",
    "statsmodels",
    "sympy",
    "tomli_w",
    "toolz",
    "tqdm",
    "typing_extensions",
    "xlrd",
    "xmltodict",
    "yaml",
];

/// Replacements in an interpreter that has the packages in [`IN_DATA_RUNTIME`].
pub(super) const INSTEAD_WITH_DATA: &[(&[&str], &str)] = &[
    (&["polars", "pyarrow", "duckdb", "dask", "modin", "vaex"], "Use `pandas`, or an in-memory `sqlite3` database."),
    (
        &["plotly", "altair", "bokeh", "pygal"],
        "Use `matplotlib` or `seaborn`. Figures that are still open at the end are shown.",
    ),
    (&["cv2", "imageio", "skimage", "wand"], "Use `PIL` (Pillow), `numpy` and `scipy.ndimage`."),
    (
        &["torch", "tensorflow", "keras", "xgboost", "lightgbm", "catboost", "transformers", "jax"],
        "Use `sklearn` (scikit-learn), which has trees, boosting, linear models and small neural networks, or `numpy`.",
    ),
    (&["numba", "cupy"], "Use `numpy` with vectorized operations."),
    (&["fitz", "pdfplumber", "pdfminer"], "Use `pypdf`."),
    (&["rich", "colorama", "termcolor"], "Print plain text, or use `tqdm` for progress."),
    (&["ruamel"], "Use `yaml`."),
    (&["fpdf"], "Use `reportlab`."),
    (&["gmpy2"], "Use `mpmath` or `sympy`."),
    (&["dill"], "Use `cloudpickle`."),
    (&["cytoolz"], "Use `toolz`."),
];

/// Returns the modules that the replacement texts name.
pub(super) fn substitutes(has_data_packages: bool) -> impl Iterator<Item = &'static str> {
    const NO_MODULES: [&str; 7] = ["assert", "await", "open", "print", "xml_to_dict", "yaml_dump", "yaml_load"];
    let with_data = INSTEAD_WITH_DATA.iter().filter(move |_| has_data_packages).map(|(_, instead)| *instead);
    let texts = INSTEAD.iter().map(|(.., instead)| *instead).chain(with_data);
    texts.flat_map(|text| text.split('`').skip(1).step_by(2)).filter(|word| {
        word.chars().all(|char| char.is_alphanumeric() || matches!(char, '_' | '.')) && !NO_MODULES.contains(word)
    })
}

pub(super) const DATA_RUNTIME: &str = "Ask the operator to add the runtime that includes it (`glovebox runtimes add python-3.15-data`), and run the script unchanged.";
