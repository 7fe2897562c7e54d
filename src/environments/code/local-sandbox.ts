import { Fault } from '../../model/faults.js';
import { describeError } from '../../platform/errors.js';
import { onceItSucceeds } from '../../platform/waits/shared.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { createFolders } from '../../sandbox/folders.js';
import type { Interpreter } from '../../sandbox/snippets/interpreter.js';
import { startInterpreter } from '../../sandbox/snippets/interpreter.js';
import type { Launcher, Level } from '../../sandbox/levels.js';
import { findBubblewrap, LEVELS, meaningOf, prepareLaunch } from '../../sandbox/levels.js';
import type { Sandbox } from '../../sandbox/snippets/outcomes.js';
import { findPythons, readProgram } from '../../sandbox/python.js';
import { createSandboxes } from '../../sandbox/snippets/sandboxes.js';
import type { CodeSettings } from './settings.js';
import { limitsOf, sandboxesAtOnce } from './settings.js';
import type { Watcher } from '../../sandbox/watch/watcher.js';
import { createWatcher } from '../../sandbox/watch/watcher.js';

interface LocalOptions {
  settings: CodeSettings;
  report: (message: string) => void;
  /** Levels to try, for tests and measurements; otherwise all that `unsafe` allows. */
  levels?: readonly Level[];
}

type Start = (session: string, signal: AbortSignal) => Promise<Interpreter>;

/** Code on this machine, confined as strongly as possible: the level is chosen and tested at the first use. */
export function createLocalSandbox(options: LocalOptions): Sandbox {
  const { settings } = options;
  const watcher = createWatcher();
  const chosen = onceItSucceeds(() => choose(options, watcher));
  const sandboxes = createSandboxes({
    start: async (session, signal) => {
      const { level, start } = await chosen();
      try {
        return await start(session, signal);
      } catch (error) {
        signal.throwIfAborted();
        const message = `code: ${level}: ${describeError(error)}`;
        throw new Fault({ type: 'EnvironmentUnavailable', message, cause: error });
      }
    },
    timeout_ms: toMs(settings.timeout),
    max_sandboxes: sandboxesAtOnce(settings),
    idle_timeout_ms: toMs(settings.idle_timeout),
  });
  return {
    level: async () => (await chosen()).level,
    run: (request) => sandboxes.run(request),
    async close() {
      await sandboxes.close();
      await watcher.close();
    },
  };
}

/** The strongest level at which a first interpreter starts and refuses what it should. */
async function choose(
  { settings, report, ...options }: LocalOptions,
  watcher: Watcher,
): Promise<{ level: Level; start: Start }> {
  const limits = limitsOf(settings);
  const levels = options.levels ?? (settings.unsafe ? LEVELS : LEVELS.slice(0, -1));
  const modules = await readProgram();
  const bubblewrap = await findBubblewrap();
  const { pythons, problems } = await findPythons(settings.python);
  for (const level of levels) {
    if (level === 'bubblewrap+landlock+seccomp' && bubblewrap === null) {
      problems.push(`${level}: no bwrap on PATH`);
      continue;
    }
    for (const python of pythons) {
      const { semantics, max_sandboxes } = settings;
      const folders = createFolders({ python, modules, report });
      const launcher = { level, bubblewrap, python, limits, max_sandboxes, folders };
      const start = starter({ ...launcher, semantics }, { modules, watcher });
      const first = starter({ ...launcher, semantics: 'standard' }, { modules, watcher });
      const problem = await tryOut(level, first);
      const with_python = `${python.executable} (${python.version.join('.')})`;
      if (problem === null) {
        const missed = problems.length === 0 ? '' : `; not: ${problems.join('; ')}`;
        report(`code runs in ${level} with ${with_python}${missed}${meaningOf(level)}`);
        void folders.sweep();
        return { level, start };
      }
      problems.push(`${level} with ${with_python}: ${problem}`);
    }
  }
  const advice =
    'install Python 3.10 or later, and bubblewrap or a kernel with Landlock (5.13); or name a remote sandbox (url); ' +
    'or let code run without a sandbox (unsafe: true)';
  const message = `code: no sandbox on this machine: ${problems.join('; ') || 'no Python'}. To run code: ${advice}`;
  throw new Fault({ type: 'EnvironmentUnavailable', message });
}

const starter =
  (
    launcher: Launcher,
    { modules, watcher }: { modules: Record<string, string>; watcher: Watcher },
  ): Start =>
  async (session, signal) => {
    const { limits, folders } = launcher;
    const launch = await prepareLaunch(launcher, session);
    const release = (folder: string): Promise<void> => folders.release(folder);
    try {
      return await startInterpreter({ launch, limits, modules, watcher, release, signal });
    } catch (error) {
      if (launch.folder !== null) await release(launch.folder);
      throw error;
    }
  };

/** A sandbox refuses each of these; returns the list of those that it does not refuse. */
const TRIALS = `[
  name for name, attempt in {
    "reads /etc/passwd": lambda: open("/etc/passwd"),
    "opens sockets": lambda: __import__("socket").socket(),
    "signals process 1 of the machine": lambda: __import__("os").kill(1, 0),
  }.items() if not _refused(attempt)
]`;
const REFUSED = `
def _refused(attempt):
    try:
        attempt()
    except OSError:
        return True
    return False
`;

/** null: it works as it should. */
async function tryOut(level: Level, start: Start): Promise<string | null> {
  const signal = AbortSignal.timeout(PROBE_MS);
  try {
    const interpreter = await start('probe', signal);
    const code = level === 'unsafe' ? '[]' : `${REFUSED}\n${TRIALS}`;
    const ran = await interpreter
      .run([code], { signal, timeout_ms: PROBE_MS })
      .finally(() => interpreter.close());
    if ('killed' in ran) return `a first snippet was ended: ${ran.killed}`;
    const [outcome] = ran.outcomes;
    if (outcome === undefined || outcome.status === 'raises') return 'a first snippet failed';
    return outcome.value === '[]' ? null : `code in it: ${outcome.value ?? 'says nothing'}`;
  } catch (error) {
    return describeError(error);
  }
}

const PROBE_MS = 30_000;
