"""A prompt with the name of a new option gets the file that defines the options."""

import pytest

from sources.git_scratch import Scratch
from space_parts import open_space
from treering.extensions.coding_agents.pointers import pointers

ARGPARSE = """\
def build_parser():
    parser = ArgumentParser()
    parser.add_argument("--verbose", "-v")
    parser.add_argument("-q", "--quiet")
    parser.add_argument("--color")
    return parser
"""
CLICK = """\
@click.command()
@click.option("--host", "-h", default="127.0.0.1")
@click.option('--port')
@click.option("--reload/--no-reload")
def serve(host, port, reload):
    run(host, port, reload)
"""
PFLAG = """\
package cmd

func init() {
\tserveCmd.Flags().StringVarP(&host, "host", "h", "", "host to bind")
\tserveCmd.Flags().BoolVar(&args.quiet, "quiet", false, "print nothing")
\trootCmd.PersistentFlags().Duration("wait-timeout", 0, "seconds")
}
"""
CLAP = """\
struct Args {
    #[arg(short, long)]
    verbose: bool,
    #[arg(long, default_value = "auto")]
    pub color: String,
    #[clap(long = "no-wait")]
    no_wait: bool,
}
"""
COMMANDER = """\
export function cli() {
  program.command("serve").option("-p, --port <number>").option("--host <name>").option('--quiet');
}
"""
RUN = """\
def run(host, port, reload):
    subprocess.run(["git", "--no-pager", "log"])
"""


@pytest.fixture
def shown(tmp_path):
    def show(prompt, files):
        scratch = Scratch(tmp_path / "acme")
        scratch.commit({"acme/run.py": RUN, "README.md": "# Acme\n\nServe with `--host`.\n", **files})
        with open_space(f"sqlite:{tmp_path}/space.db") as space:
            space.ingest("repo", input={"path": str(scratch.folder)})
            return [one.text for one in pointers(space, prompt)]

    return show


@pytest.mark.parametrize(
    ("path", "code", "line"),
    [
        ("acme/options.py", ARGPARSE, 3),
        ("acme/main.py", CLICK, 2),
        ("cmd/serve.go", PFLAG, 4),
        ("src/args.rs", CLAP, 2),
        ("src/cli.ts", COMMANDER, 2),
    ],
)
def test_new_option_gets_the_file_that_defines_options(shown, path, code, line):
    assert shown("add a --fail-fast flag", {path: code})[0].startswith(f"{path}:{line} ")


def test_command_that_the_prompt_names_decides_between_files(shown):
    (first, *_) = shown("the serve command should take a --reuse-port option", {"a.py": ARGPARSE, "serve.py": CLICK})
    assert first.startswith("serve.py:2 ")


@pytest.mark.parametrize(
    "prompt", ["add a better text for --quiet", "--fail-fast does not work", "add a fail fast mode"]
)
def test_prompt_without_a_new_option_gets_no_definitions_of_options(shown, prompt):
    assert shown(prompt, {"acme/options.py": ARGPARSE}) == []


def test_arguments_of_other_programs_define_no_options(shown):
    assert shown("add a --fail-fast flag", {}) == []


def test_options_that_only_tests_write_are_shown_as_a_file(shown):
    rust = 'fn test_parse() {\n    parse(["--after", "--before", "--color"]);\n    let option = flag;\n}\n'
    assert shown("add a --fail-fast flag", {"src/flags.rs": rust}) == ["src/flags.rs – test_parse"]
