import path from 'node:path';
import { Duration } from '../../src/model/durations.js';
import { shellWord, UsageError } from '../../src/platform/command.js';
import { toMs } from '../../src/model/workflow-safe/durations.js';
import type { JsonObject } from '../json/exact.js';
import type { ParsedCommand } from '../config/collect-config.js';
import type { E2ERolloutCollectionConfig, RolloutCollectionConfig } from '../config/schemas.js';
import type { Places } from '../config/search-roots.js';
import { exists } from '../../src/platform/files.js';
import type { Dataset } from './datasets.js';
import { configPathsText, datasetsOf } from './datasets.js';
import { prepareData } from './prepare-data.js';
import { runPrepareScripts } from './prepare-scripts.js';
import { startServers } from './serve.js';
import { allAnswer, describeServers, lookAtServers } from './servers.js';

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
  await dataOf({ file, datasets, reuse, log_file, parsed }, { ...places, ...context });
  const stop = await serversFor({
    ...places,
    ...context,
    head_server,
    agents: [...new Set(datasets.map(({ agent }) => agent))],
    serve: serveCommand(parsed),
    log_file: path.join(folder, 'servers.log'),
    timeout_ms: toMs(timeout.data),
    gym,
  });
  return { config: { ...collection, input_jsonl_fpath: file }, stop };
}

interface Data {
  file: string;
  datasets: Dataset[];
  reuse: E2ERolloutCollectionConfig['reuse_existing_data_preparation'];
  /** Of scripts that prepare data. */
  log_file: string;
  parsed: Pick<ParsedCommand<unknown>, 'program' | 'overrides'>;
}

interface Serve {
  command: string;
  /** It, as people may read it. */
  shown: string;
}

/** The user's command, or upstream's where Gym is installed; null: the servers must already run. */
function serveCommand({
  gym,
  own,
  overrides,
  program,
  no_serve,
}: Omit<ParsedCommand<unknown>, 'config'>): Serve | null {
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

async function dataOf(
  { file, datasets, reuse, log_file, parsed: { program, overrides } }: Data,
  context: Places & { say: (text: string) => void; signal: AbortSignal },
): Promise<void> {
  const { say } = context;
  if (reuse && (await exists(file))) {
    say(
      `Skipping data preparation since \`reuse_existing_data_preparation=true\` and the final input jsonl fpath \`${file}\` already exists`,
    );
    return;
  }
  if (reuse) {
    say(
      `Even though the \`reuse_existing_data_preparation=true\` flag was set, we will still do data preparation since the final input jsonl fpath \`${file}\` does not exist yet`,
    );
  }
  const running = { ...context, datasets, program, overrides, log_file };
  const tried = await runPrepareScripts(running);
  await prepareData({ ...context, datasets, file, tried });
}

interface ServersWanted extends Places {
  head_server: string;
  agents: string[];
  serve: Serve | null;
  log_file: string;
  timeout_ms: number;
  gym: JsonObject;
  signal: AbortSignal;
  say: (text: string) => void;
}

/** Servers that already answer are used as they are. */
async function serversFor({ serve, gym, ...wanted }: ServersWanted): Promise<() => Promise<void>> {
  const { head_server, say } = wanted;
  const seen = await lookAtServers(wanted);
  if (allAnswer(seen)) {
    if (serve !== null) say(`Servers answer at ${head_server} already: none is started`);
    return () => Promise.resolve();
  }
  const missing = describeServers(seen, head_server);
  if (serve === null) {
    throw new Error(
      `${missing}. Start the servers, or have them started: --serve-command ${suggestion(gym)}`,
    );
  }
  if (!seen.headless) {
    throw new Error(
      `${missing}. Other servers run there: stop them, or give another head_server.port`,
    );
  }
  return await startServers({ ...wanted, ...serve });
}

const suggestion = (gym: JsonObject): string =>
  JSON.stringify(`gym env start ${configPathsText(gym)}`);
