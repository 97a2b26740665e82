from glovebox_sandbox import Limits, Sandbox

with Sandbox("python", limits=Limits(fuel=2_000_000_000)) as box:
    run = box.execute("open('out.txt', 'w').write('hi'); print(sum(range(10)))")
    print(run.outcome, run.stdout.strip(), run.files["out.txt"])

    # An endless script ends at its limit, and the sandbox stays usable.
    endless = box.execute("while True: pass")
    print(endless.outcome.kind, endless.outcome.resource)

    # A session keeps its interpreter between scripts.
    with box.session() as session:
        session.execute("total = 40")
        print(session.execute("total + 2").value)
