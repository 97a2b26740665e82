from e2b_code_interpreter import Sandbox

with Sandbox.create() as sandbox:
    sandbox.files.write("numbers.csv", "1\n2\n3\n")
    execution = sandbox.run_code("sum(int(line) for line in open('numbers.csv'))")
    assert execution.text == "6"
