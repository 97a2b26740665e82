from glovebox_sandbox import Limits, Sandbox

with Sandbox("python", limits=Limits(fuel=2_000_000_000)) as box:
    run = box.execute("open('out.txt', 'w').write('hi'); print(sum(range(10)))")
    print(run.outcome, run.stdout.strip(), run.files["out.txt"])

    # Whatever a script does is an outcome, and the sandbox goes on.
    endless = box.execute("while True: pass")
    print(endless.outcome.kind, endless.outcome.resource)

    # An interpreter that persists.
    with box.session() as session:
        session.execute("total = 40")
        print(session.execute("total + 2").value)
