import shutil

shutil.copytree("tree", "copy")
shutil.rmtree("tree")
