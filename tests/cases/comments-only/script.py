# nothing

"""a docstring"""
