import path from 'node:path';
import { Duration } from '../../src/model/field-kinds.js';
import { shellWord, UsageError } from '../../src/platform/command.js';
import { toMs } from '../../src/model/workflow-safe/durations.js';
import type { ParsedCommand } from '../config/collect-config.js';
import type { E2ERolloutCollectionConfig, RolloutCollectionConfig } from '../config/schemas.js';
import { exists } from '../../src/platform/files.js';
import { configPathsText, datasetsOf } from './datasets.js';
import { prepareData } from './prepare-data.js';
import { runPrepareScripts } from './prepare-scripts.js';
import { startServers, type Serving } from './serve.js';
import { lookAtServers } from './servers.js';

/** Our own options, beside upstream's arguments. */
export const E2E_OPTIONS = ['serve-command', 'serve-timeout'];

/** vLLM takes minutes to load a large model. */
const SERVE_TIMEOUT = '30m';

export interface PreparedE2E {
  /** The configuration of the collection to run. */
  config: RolloutCollectionConfig;
  /** Ends the servers that were started, if any. */
  stop: () => Promise<void>;
}

/**
 * Everything before the collection: the split's rows in one file, and servers that answer. If it throws, it stops what
 * it started.
 */
export async function prepareE2E(
  parsed: ParsedCommand<E2ERolloutCollectionConfig>,
  context: { signal: AbortSignal; say: (text: string) => void },
): Promise<PreparedE2E> {
  const { config, head_server, places, gym, own } = parsed;
  const timeout = Duration.safeParse(own['serve-timeout'] ?? SERVE_TIMEOUT);
  if (!timeout.success) {
    throw new UsageError(`--serve-timeout: ${timeout.error.issues[0]?.message ?? ''}`);
  }
  const { split, reuse_existing_data_preparation: reuse, ...collection } = config;
  // Beside the results, in a folder of their name, as in upstream.
  const output = path.parse(path.resolve(places.cwd, config.output_jsonl_fpath));
  const folder = path.join(output.dir, output.name);
  const file = path.join(folder, 'preprocessed_datasets', `${split}.jsonl`);
  const datasets = datasetsOf(gym, { split, env: places.env });
  const log_file = path.join(folder, 'prepare.log');
  const { program, overrides } = parsed;
  const data = { ...places, ...context, datasets, program, overrides, log_file };
  if (await mustPrepare(file, { reuse, say: context.say }))
    await prepareData({ ...data, file, tried: await runPrepareScripts(data) });
  const stop = await serversFor(parsed, {
    ...places,
    ...context,
    head_server,
    agents: [...new Set(datasets.map(({ agent }) => agent))],
    log_file: path.join(folder, 'servers.log'),
    timeout_ms: toMs(timeout.data),
  });
  return { config: { ...collection, input_jsonl_fpath: file }, stop };
}

/** Upstream's texts. */
async function mustPrepare(
  file: string,
  { reuse, say }: { reuse: boolean; say: (text: string) => void },
): Promise<boolean> {
  if (!reuse) return true;
  const isThere = await exists(file);
  say(
    isThere
      ? `Skipping data preparation since \`reuse_existing_data_preparation=true\` and the final input jsonl fpath \`${file}\` already exists`
      : `Even though the \`reuse_existing_data_preparation=true\` flag was set, we will still do data preparation since the final input jsonl fpath \`${file}\` does not exist yet`,
  );
  return !isThere;
}

type Parsed = Omit<ParsedCommand<unknown>, 'config'>;

/** The user's command, or upstream's where Gym is installed; null: the servers must already run. */
function serveCommand({
  gym,
  own,
  overrides,
  program,
  no_serve,
}: Parsed): Pick<Serving, 'command' | 'shown'> | null {
  const given = own['serve-command'] ?? null;
  if (no_serve) return null;
  if (given !== null) return { command: given, shown: given };
  if (program === null) return null;
  return {
    command: [program, 'env', 'start', ...overrides].map(shellWord).join(' '),
    // Arguments may be keys of services.
    shown: `gym env start ${configPathsText(gym)} …`,
  };
}

/** Servers that already answer are used as they are. */
async function serversFor(
  parsed: Parsed,
  wanted: Omit<Serving, 'command' | 'shown'>,
): Promise<() => Promise<void>> {
  const { head_server, say } = wanted;
  const serve = serveCommand(parsed);
  const { missing, headless } = await lookAtServers(wanted);
  if (missing === '') {
    if (serve !== null) say(`Servers answer at ${head_server} already: none is started`);
    return () => Promise.resolve();
  }
  if (serve === null) {
    const suggestion = JSON.stringify(`gym env start ${configPathsText(parsed.gym)}`);
    throw new Error(
      `${missing}. Start the servers, or have them started: --serve-command ${suggestion}`,
    );
  }
  if (!headless) {
    throw new Error(
      `${missing}. Other servers run there: stop them, or give another head_server.port`,
    );
  }
  return await startServers({ ...wanted, ...serve });
}
