"""Reseeds random generators in forks and restored sessions, except those that a script has seeded.

In a fork or a restored session, a generator that a script seeded continues its sequence, and other generators get new
states. The host writes the states of the generators behind the functions of `random` and `numpy.random`, unless their
flags are set. It calls `renew` if scripts created generators without a seed (see `reseed` in object.rs).
"""

import _random

RANDOM, NUMPY, OTHERS = range(3)
generator_flags = bytearray(4)  # whether a script seeded `random` and `numpy.random`, and whether to call `renew`
unseeded = {}  # from `id` to a weak reference: instances of `random.Random` without a seed
numpy_global = None  # the generator of `numpy.random`'s functions
numpy_is_unseeded = False  # whether other generators of numpy without a seed can exist
numpy_in_image = False  # whether the host writes the states of `numpy_global`
numpy_parts = None  # the parts of numpy that `renew` uses; a script cannot replace them
seed_generator, set_generator = random.Random.seed, random.Random.setstate
gc_disable, gc_enable, gc_is_enabled, gc_objects = gc.disable, gc.enable, gc.isenabled, gc.get_objects


@functools.wraps(seed_generator)
def seed(self, a=None, version=2):
    seed_generator(self, a, version)
    note_seed(self, a is not None)


@functools.wraps(set_generator)
def setstate(self, state):
    set_generator(self, state)
    note_seed(self, True)


def note_seed(generator, is_seeded):
    key = id(generator)
    if generator is random._inst:
        generator_flags[RANDOM] = is_seeded
    elif is_seeded:
        unseeded.pop(key, None)
    else:
        unseeded[key] = weakref.ref(generator, lambda reference: unseeded.pop(key, None))
        generator_flags[OTHERS] = True


class Entropy(int):
    """The entropy of a numpy seed sequence that was created without a seed. Its copies are plain integers."""

    __slots__ = ()

    def __reduce__(self):
        return int, (int(self),)


def watch_numpy(numpy_random):
    """Replaces the generator of `numpy.random`'s functions by one that notes when it is seeded, and marks the entropy
    of other generators. Called after the import."""
    global numpy_global, numpy_parts
    source = sys.modules["numpy.random.bit_generator"]
    original = numpy_random.MT19937
    get_state, set_state = original.state.__get__, original.state.__set__
    numpy_randbits = source.randbits

    class MT19937(original):
        __module__ = original.__module__
        __qualname__ = original.__qualname__

        def _legacy_seeding(self, seed):
            super()._legacy_seeding(seed)
            if self is numpy_global:
                generator_flags[NUMPY] = seed is not None

        def assign(self, state):
            set_state(self, state)
            if self is numpy_global:
                generator_flags[NUMPY] = True

        state = property(get_state, assign, doc=original.state.__doc__)
        del assign

        def __reduce__(self):
            function, (kind, *rest), *state = super().__reduce__()
            return function, (original, *rest), *state

    @functools.wraps(numpy_randbits)
    def randbits(k):
        global numpy_is_unseeded
        generator_flags[OTHERS] = numpy_is_unseeded = True
        return Entropy(numpy_randbits(k))

    # The generators with a part of the state that drawing does not change.
    constants = (numpy_random.PCG64, "inc"), (numpy_random.PCG64DXSM, "inc"), (numpy_random.Philox, "key")
    numpy_parts = original, source.SeedSequence, source.BitGenerator.seed_seq.__get__, constants
    # Continues the sequence of numpy's own generator.
    own = numpy_random.get_bit_generator()
    generator = MT19937(0)
    generator.__setstate__((own.state, own.seed_seq))
    numpy_random.set_bit_generator(generator)
    numpy_global = generator
    source.randbits = randbits
    generator_flags[OTHERS] = True


def renew():
    """Reseeds the generators that scripts created without a seed. Collects no garbage, so that no finalizers run."""
    is_collecting = gc_is_enabled()
    gc_disable()
    try:
        references = list(unseeded.values())
        # A seed from the system would add 2.8 kB for each generator to the journal of an execution.
        draw = _random.Random().getrandbits if references else None
        for reference in references:
            try_renewal(renew_random, reference(), draw(256))
        if numpy_global is not None:
            renew_numpy(*numpy_parts)
    except BaseException:
        pass  # out of memory
    if is_collecting:
        gc_enable()
    return None


def try_renewal(renew_one, *arguments):
    """Reseeds one generator. The others are reseeded even if a script's class raises an exception."""
    try:
        renew_one(*arguments)
    except BaseException:
        pass


def renew_random(generator, entropy):
    if generator is not None:
        _random.Random.seed(generator, entropy)
        object.__setattr__(generator, "gauss_next", None)


def renew_numpy(twister, seed_sequence, sequence_of, constants):
    global numpy_is_unseeded
    is_unseeded = numpy_is_unseeded
    if not (numpy_in_image or generator_flags[NUMPY]):
        try_renewal(twister._legacy_seeding, numpy_global, None)
    numpy_is_unseeded = is_unseeded
    # The loop takes a tenth of a second for 300,000 objects.
    if is_unseeded:
        kinds = tuple([kind for kind, _ in constants])
        for generator in gc_objects():
            if issubclass(type(generator), kinds):
                try_renewal(renew_bits, generator, seed_sequence, sequence_of, constants)


def renew_bits(generator, seed_sequence, sequence_of, constants):
    for kind, constant in constants:
        if issubclass(type(generator), kind):
            break
    sequence = sequence_of(generator)
    if type(sequence) is not seed_sequence or type(sequence.entropy) is not Entropy:
        return
    # A script that assigned another generator's state also changed the constant part of the state.
    state, first = kind.state.__get__(generator), kind(sequence).state
    if str(state["state"][constant]) == str(first["state"][constant]):
        fresh = kind()
        state = {**fresh.state, "bit_generator": type(generator).__name__}
        kind.__setstate__(generator, (state, fresh.seed_seq))


def forget_generators():
    """Clears the flags. The generators that an image contains count as seeded, except for the global ones."""
    global numpy_in_image, numpy_is_unseeded
    numpy_in_image, numpy_is_unseeded = numpy_global is not None, False
    unseeded.clear()
    generator_flags[:] = bytes(len(generator_flags))


random.Random.seed, random.Random.setstate = seed, setstate
random.seed, random.setstate = random._inst.seed, random._inst.setstate
late["numpy.random"] = watch_numpy
