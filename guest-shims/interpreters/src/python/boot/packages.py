"""Packages: imported here, where there are any, and put aside until a script imports them."""

SITE = WORKSPACE + "/site-packages"

# `True` if the library's zip file has packages too. Those in `SITE` then come first: they have a known version, or are
# the user's. Names of the standard library are not looked up there, and so stay the library's, as everywhere.
LIBRARY_HAS_PACKAGES = machinery.PathFinder.find_spec("numpy", [LIBRARY]) is not None

# All modules that are worth preloading. Importing a package loads those of its modules that are listed here, and their
# own imports. Modules that are not listed are compiled when they are imported.
PRELOADED = """
    attr attrs certifi charset_normalizer cobble dateutil.easter dateutil.parser dateutil.relativedelta dateutil.rrule dateutil.tz
    dateutil.utils defusedxml.ElementTree defusedxml.minidom et_xmlfile idna jinja2 leather mammoth markdown markdown.extensions.extra
    markdown.extensions.nl2br markdown.extensions.sane_lists markdown.extensions.toc markupsafe openpyxl PyPDF2 requests sandbox_utils six
    tabulate tomli urllib3 xlsxwriter
""".split()

if LIBRARY_HAS_PACKAGES:
    # openpyxl imports numpy, lxml and Pillow if they exist. Such modules are loaded once, and not put aside.
    PRELOADED.remove("openpyxl")

# A larger package does not load all its modules, because each costs a script a page.
MODULES_MOST = 64

shelf = {}  # by the name that is imported: the modules, by their names, and what looks for more of them
waiting = {}  # by the name of a package: those of its modules that nobody has imported yet
usual_path = []  # `sys.path` as scripts find it
injected = True  # whether scripts find packages


class PackageLoader:
    """Gives back a module that was imported at preparation, and all others of its package with it."""

    def create_module(self, spec):
        modules, finders = shelf.pop(spec.name)
        module = modules.pop(spec.name)
        if len(modules) > MODULES_MOST:
            waiting[spec.name] = modules
        else:
            loaded = sys.modules
            for name in modules:
                if name not in loaded:  # what a script has put there stays
                    loaded[name] = modules[name]
        sys.meta_path.extend(finders)
        return module

    def exec_module(self, module):
        module.__spec__ = module.__spec__.loader_state


class PartLoader(PackageLoader):
    """The same for a module of a package that is too large to bring them all."""

    def create_module(self, spec):
        return waiting[spec.name.partition(".")[0]].pop(spec.name)


def spec_of(fullname, module, loader):
    known = module.__spec__
    spec = machinery.ModuleSpec(fullname, loader, origin=known.origin, loader_state=known)
    spec.submodule_search_locations = known.submodule_search_locations
    spec.has_location = known.has_location
    return spec


def shelved(fullname):
    return spec_of(fullname, shelf[fullname][0][fullname], PackageLoader())


class PartFinder(WorkspaceFinder):
    """Of the directories of packages."""

    def find_spec(self, fullname, target=None):
        module = waiting.get(fullname.partition(".")[0], {}).get(fullname)
        return super().find_spec(fullname, target) if module is None else spec_of(fullname, module, PartLoader())


class PackageFinder(WorkspaceFinder):
    """Looks on the shelf, after what the workspace itself has in a directory of this name."""

    def find_spec(self, fullname, target=None):
        if LIBRARY_HAS_PACKAGES and fullname in sys.stdlib_module_names:
            return None
        if fullname not in shelf:
            return super().find_spec(fullname, target)
        if not is_mounted():
            found = super().find_spec(fullname, target)
            if found is not None and found.loader is not None:
                return found
        return shelved(fullname)


class FirstFinder(WorkspaceFinder):
    """Of `/app` itself, the first on the path. What is not there and has no name of the standard library's is on the shelf
    or nowhere before it: the library, a zip file and two directories, need not be searched."""

    def find_spec(self, fullname, target=None):
        found = super().find_spec(fullname, target)
        if found is None and fullname in shelf and sys.path == usual_path and is_mounted():
            return shelved(fullname)
        return found


def is_mounted():
    """Whether the packages are seen, and not a directory of the workspace's own."""
    try:
        return os.stat(SITE).st_dev != os.stat(WORKSPACE).st_dev
    except OSError:
        return False


def preload():
    """Fills the shelf, and leaves `sys` as if nothing had been imported."""
    if not is_mounted():
        return
    finders, handlers = len(sys.meta_path), len(logging._handlerList)
    tops = {name.partition(".")[0] for name in PRELOADED}
    for wanted in PRELOADED:
        top = wanted.partition(".")[0]
        before, known = set(sys.modules), len(sys.meta_path)
        __import__(wanted)
        for name in set(sys.modules) - before:
            owner = name.partition(".")[0]
            if name in sys.builtin_module_names and owner not in sys.stdlib_module_names:
                raise ImportError(f"`{wanted}` imports `{name}`, which can be loaded only once", name=name)
            if owner not in sys.stdlib_module_names:
                # A package's modules under another name are its own.
                modules, _ = shelf.setdefault(owner if owner in tops else top, ({}, []))
                modules[name] = sys.modules[name]
        for finder in sys.meta_path[known:]:
            shelf[type(finder).__module__.partition(".")[0]][1].append(finder)
    for modules, _ in shelf.values():
        for name in modules:
            del sys.modules[name]
    for path in list(sys.path_importer_cache):
        if path.startswith(SITE):
            del sys.path_importer_cache[path]
    sys.modules["importlib.metadata"].FastPath.__new__.cache_clear()  # where a package asked for its own version
    del sys.meta_path[finders:]
    del logging._handlerList[handlers:]  # which do nothing, and would have every script's end shut them down


def withdraw_packages():
    """Leaves `sys.path` as it would be without packages. The host calls it for guests that are to have none."""
    global injected
    try:
        if injected:
            injected = False
            sys.path.remove(SITE)
    except BaseException:
        pass  # a script was faster
    return None
