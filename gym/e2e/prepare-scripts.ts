import path from 'node:path';
import { shellWord } from '../../src/platform/command.js';
import { exists } from '../../src/platform/files.js';
import { describeExit, startChild } from '../../dev/child.js';
import { onAbort } from '../../src/platform/waits/abort.js';
import type { Places } from '../config/search-roots.js';
import { resolveUnderRoots, searchRoots } from '../config/search-roots.js';
import { rowsOf, type Dataset } from './datasets.js';

export interface PrepareScripts extends Places {
  datasets: Dataset[];
  /** Gym's program; null: scripts are not run. */
  program: string | null;
  /** What it takes, in Hydra's form. */
  overrides: string[];
  log_file: string;
  say: (text: string) => void;
  signal: AbortSignal;
}

/**
 * Runs the `prepare_script` of data sets whose files are missing, by Gym's own command, without a network. Returns what
 * went wrong, for the error that names the files; null: nothing did.
 */
export async function runPrepareScripts({
  datasets,
  ...running
}: PrepareScripts): Promise<string | null> {
  const { program } = running;
  if (program === null) return null;
  const files = new Map<string, string[]>();
  for (const dataset of datasets) {
    if (dataset.prepare_script === null || (await exists(await rowsOf(dataset, running)))) continue;
    const root = await rootOf(dataset.prepare_script, running);
    if (root === null) continue;
    files.set(root, [...(files.get(root) ?? []), path.resolve(root, dataset.jsonl_fpath)]);
  }
  for (const [root, missing] of files) {
    const problem = await prepareIn(root, { ...running, program, missing });
    if (problem !== null) return problem;
  }
  return null;
}

/** Gym imports a script by its path below the folder where it runs. */
async function rootOf(script: string, places: Places): Promise<string | null> {
  const file = await resolveUnderRoots(script, places);
  const root = searchRoots(places).find((one) => path.join(one, script) === file);
  return root !== undefined && (await exists(file)) ? root : null;
}

type Running = Omit<PrepareScripts, 'datasets' | 'program'> & {
  program: string;
  /** Made by the scripts. */
  missing: string[];
};

const CACHED = 'use_cached_prepared_benchmarks';

async function prepareIn(
  root: string,
  { program, overrides, missing, log_file, say, signal, ...places }: Running,
): Promise<string | null> {
  const isGiven = overrides.some((override) => override.replace(/^\++/, '').startsWith(CACHED));
  const words = [program, 'eval', 'prepare', ...overrides, ...(isGiven ? [] : [`+${CACHED}=true`])];
  say(`Preparing, without a network: ${missing.join(', ')}\n  log: ${log_file}`);
  signal.throwIfAborted();
  const child = await startChild({
    command: 'bash',
    args: ['-c', wholeOrNot(words, missing)],
    cwd: root,
    env: {
      ...places.env,
      ...OFFLINE,
      NEMO_GYM_EXTRA_ROOTS: searchRoots(places).join(path.delimiter),
    },
    logFile: log_file,
    ends: 'kernel',
  });
  const leave = onAbort(signal, () => void child.stop());
  const exit = await child.exited;
  leave();
  signal.throwIfAborted();
  if (exit.code === 0) return null;
  const said = (await child.lastWords()) ?? 'it said nothing';
  return `\`gym eval prepare\` was run without a network, and ended ${describeExit(exit)}: ${said} (log: ${log_file})`;
}

/** The libraries of the Hub do without a network; of all others, the proxy is a port that nothing listens on. */
const NO_PROXY = 'http://127.0.0.1:9';
const PROXIES = ['http_proxy', 'https_proxy', 'ftp_proxy', 'all_proxy'];
const OFFLINE: Record<string, string> = {
  HF_HUB_OFFLINE: '1',
  HF_DATASETS_OFFLINE: '1',
  no_proxy: '',
  NO_PROXY: '',
  ...Object.fromEntries(
    PROXIES.flatMap((name) => [name, name.toUpperCase()]).map((name) => [name, NO_PROXY]),
  ),
};

/** Scripts write in place. If the command fails or is ended, nothing stays that the next run would take for whole. */
const wholeOrNot = (words: string[], files: string[]): string => `
undo() { rm -f -- ${files.map(shellWord).join(' ')}; exit "$1"; }
trap 'kill $!; wait $!; undo 143' TERM
${words.map(shellWord).join(' ')} &
wait $! || undo $?
`;
