"""Preloads packages at preparation, and sets them aside until a script imports them."""

SITE = WORKSPACE + "/site-packages"

# `True` if the library's zip file also contains packages. `SITE` then precedes the zip file on the path, because its
# packages are pinned or come from the user. `SITE` is not searched for modules of the standard library.
LIBRARY_HAS_PACKAGES = machinery.PathFinder.find_spec("numpy", [LIBRARY]) is not None

# The modules to preload. Importing a package loads its listed modules and their imports. Other modules are compiled
# when a script imports them.
PRELOADED = """
    attr attrs certifi charset_normalizer cobble dateutil.easter dateutil.parser dateutil.relativedelta dateutil.rrule dateutil.tz
    dateutil.utils defusedxml.ElementTree defusedxml.minidom et_xmlfile idna jinja2 leather mammoth markdown markdown.extensions.extra
    markdown.extensions.nl2br markdown.extensions.sane_lists markdown.extensions.toc markupsafe openpyxl PyPDF2 requests sandbox_utils six
    tabulate tomli urllib3 xlsxwriter
""".split()

if LIBRARY_HAS_PACKAGES:
    # openpyxl imports numpy, lxml and Pillow if they are installed. They can be loaded only once, so they cannot be
    # set aside.
    PRELOADED.remove("openpyxl")

# Maximum number of modules that are loaded together with their package. A larger package loads each module on import,
# because every loaded module costs the script a memory page.
MODULES_MOST = 64

shelf = {}  # from package name to its preloaded modules by name, and its finders
waiting = {}  # from package name to its modules that are not imported yet
usual_path = []  # the initial `sys.path` of scripts
injected = True  # whether scripts can import packages


class PackageLoader:
    """Loads a preloaded module, together with the other modules of its package."""

    def create_module(self, spec):
        modules, finders = shelf.pop(spec.name)
        module = modules.pop(spec.name)
        if len(modules) > MODULES_MOST:
            waiting[spec.name] = modules
        else:
            loaded = sys.modules
            for name in modules:
                if name not in loaded:  # keeps a script's own entries
                    loaded[name] = modules[name]
        sys.meta_path.extend(finders)
        return module

    def exec_module(self, module):
        module.__spec__ = module.__spec__.loader_state


class PartLoader(PackageLoader):
    """Loads one preloaded module of a package that is too large to load as a whole."""

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
    """Finds modules inside packages: the preloaded ones in `waiting`, then files."""

    def find_spec(self, fullname, target=None):
        module = waiting.get(fullname.partition(".")[0], {}).get(fullname)
        return super().find_spec(fullname, target) if module is None else spec_of(fullname, module, PartLoader())


class PackageFinder(WorkspaceFinder):
    """Finds modules in `SITE`: in a directory of the workspace with this name, then among the preloaded packages."""

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
    """Finds modules in `/app`, the first entry of the path, then among the preloaded packages. Finding them here skips
    the library's zip file and two directories, which cannot contain them."""

    def find_spec(self, fullname, target=None):
        found = super().find_spec(fullname, target)
        if found is None and fullname in shelf and sys.path == usual_path and is_mounted():
            return shelved(fullname)
        return found


def is_mounted():
    """Returns `False` if the packages are not mounted, or a directory of the workspace hides them."""
    try:
        return os.stat(SITE).st_dev != os.stat(WORKSPACE).st_dev
    except OSError:
        return False


def preload():
    """Preloads the packages, and restores `sys` as if nothing had been imported."""
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
                raise ImportError(
                    f"`{wanted}` imports `{name}`, which can be loaded only once; remove it from `PRELOADED`",
                    name=name,
                )
            if owner not in sys.stdlib_module_names:
                # Modules under another top-level name belong to the package that imported them.
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
    sys.modules["importlib.metadata"].FastPath.__new__.cache_clear()  # filled when packages look up their version
    del sys.meta_path[finders:]
    del logging._handlerList[handlers:]  # null handlers, which every script would otherwise shut down at its end


def withdraw_packages():
    """Removes the packages from `sys.path`. The host calls this for guests without packages."""
    global injected
    try:
        if injected:
            injected = False
            sys.path.remove(SITE)
    except BaseException:
        pass  # a script has already removed it
    return None
