import abc, argparse, array, ast, base64, binascii, bisect, calendar, codecs, collections.abc, colorsys, configparser
import contextlib, copy, csv, dataclasses, datetime, decimal, difflib, email.message, enum, fnmatch, fractions, functools
import glob, hashlib, heapq, hmac, html.parser, inspect, io, itertools, json, keyword, locale, logging, math, numbers
import operator, os.path, pathlib, pickle, platform, pprint, queue, random, re, secrets, shlex, shutil, statistics, string
import struct, tempfile, textwrap, time, timeit, tokenize, traceback, types, typing, unicodedata, unittest, urllib.parse
import uuid, warnings, weakref, xml.etree.ElementTree, zipfile

print("ok")
