import path from 'node:path';
import { z } from 'zod';
import { Word, oneOf, orNull, refuserOf, Duration } from '../model/field-kinds.js';
import { filesOfSandboxes } from '../environments/code/settings.js';
import { EnvironmentSettings, resolvePaths } from '../environments/registry.js';
import { bytesOf } from '../platform/size.js';
import { lineOf } from '../model/problems.js';
import { problemsWithHints } from '../model/unknown-fields.js';
import { FORMATS } from '../model/results/arrow/formats.js';
import { recordOf } from '../model/untrusted.js';
import { placeOf } from '../platform/s3/bucket.js';
import { isRecord } from '../platform/json/object.js';
import { parseYaml } from '../platform/yaml.js';
import { mostOpenFiles } from '../platform/process/open-files.js';
import { READERS, isMissing } from '../platform/files.js';
import { readWhole } from '../platform/regular-file.js';
import { planMemory } from './memory.js';
import { agentProblems } from './agent-problems.js';
import { GenerationServiceSettings } from './generation-settings.js';
import { sharedEngines } from './one-engine.js';
import { WorkerSettings } from './worker-settings.js';
import { generationQueue, ownQueue, queuesOfTurns, unequalLimits } from './queues.js';
import { textOf } from '../platform/utf8-text.js';

/** temporal.yaml: deployment settings. Experiment settings are in the batch request; there is no third place. */

const TemporalSettings = z
  .strictObject({
    profile: orNull(z.string()).describe(
      'a profile of temporal.toml; null: that of `TEMPORAL_PROFILE`, or the default',
    ),
    address: orNull(
      z
        .string()
        .refine((text) => !text.includes('://'), 'expected host:port, such as 127.0.0.1:7233'),
    ).describe(
      'host:port of the Temporal server; null: from `TEMPORAL_ADDRESS` or temporal.toml, else 127.0.0.1:7233',
    ),
    namespace: orNull(z.string()).describe(
      'namespace of the Temporal server; null: from `TEMPORAL_NAMESPACE` or temporal.toml, else `default`',
    ),
    task_queue: Word.default('rollouts').describe(
      'the task queue of workflows. Queues of other roles are named after it, such as `rollouts-generation`',
    ),
  })
  .prefault({});

const ViewerSettings = z
  .strictObject({
    url: orNull(
      z
        .string()
        .transform((text) => text.replace(/\/+$/, ''))
        .refine(
          (text) => URL.canParse(text) && new URL(text).origin === text && /^https?:/.test(text),
          'expected http(s)://host:port alone, such as http://127.0.0.1:8234: the token is no part of it',
        ),
    ).describe(
      'its address, to which workflows link in the Temporal Web UI; the token is no part of it. null: they do not',
    ),
  })
  .prefault({});

const ReadersSetting = oneOf(READERS, 'owner').describe(
  "who may read the files. Only the worker's user may write them",
);
export const DEFAULT_ROOT = '.rollouts/trajectories';
const FormatsSetting = z
  .array(z.enum(FORMATS))
  .refine(
    (formats) => formats.includes('jsonl') && new Set(formats).size === formats.length,
    'expected [jsonl] or [jsonl, arrow]',
  )
  .default(['jsonl'])
  .describe(
    'files with the valid rollouts: rollouts.jsonl always, and rollouts.arrow if you name `arrow`',
  );

const FileStoreSettings = z.strictObject({
  kind: z.literal('file').describe('files of one host'),
  root: z.string().default(DEFAULT_ROOT).describe('folder of journals and results'),
  readers: ReadersSetting,
  outputs: z.strictObject({ formats: FormatsSetting }).prefault({}).describe('results'),
});

/** The URL contains a password, so the settings only say where it is. */
const PostgresStoreSettings = z
  .strictObject({
    kind: z.literal('postgres').describe('a PostgreSQL database, for any number of hosts'),
    url_env: orNull(Word).describe('the environment variable that holds its URL'),
    url_file: orNull(Word).describe('the file that holds its URL'),
    schema: z
      .string()
      .regex(/^[a-z_][a-z0-9_]{0,62}$/, 'expected a name of small letters, digits and _')
      .default('durable_rollouts')
      .describe('schema of the tables in the database'),
    max_connections: z.int().min(2).default(8).describe('connections of each worker process'),
    patience: Duration.default('20s').describe(
      'how long a statement waits for an unavailable server before Temporal retries',
    ),
    outputs: z
      .strictObject({
        kind: oneOf(['file', 's3'], 'file').describe(
          '`file`: a folder on a shared disk. `s3`: a bucket',
        ),
        root: orNull(z.string()).describe(
          `of kind \`file\`: the folder; null: \`${DEFAULT_ROOT}\``,
        ),
        readers: ReadersSetting,
        formats: FormatsSetting,
        bucket: orNull(
          z.string().regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'expected the name of a bucket'),
        ).describe('of kind `s3`: the bucket'),
        prefix: z
          .string()
          .refine(
            (text) => text === '' || text.split('/').every((name) => /^[\w.=+-]+$/.test(name)),
            'expected names with slashes between',
          )
          .default('')
          .describe('of kind `s3`: the prefix of all keys, such as `team/rollouts`'),
        region: orNull(Word).describe("of kind `s3`: the bucket's region; null: from `AWS_REGION`"),
        endpoint_env: orNull(Word).describe(
          "of kind `s3`: the environment variable that holds the URL of a store other than Amazon's; null: `AWS_ENDPOINT_URL_S3`",
        ),
      })
      .prefault({})
      .describe(
        'place of the results. Workers with role `workflow` write there, and trainers read there',
      ),
  })
  .superRefine(({ url_env, url_file, outputs }, context) => {
    const refuse = refuserOf(context);
    if ((outputs.kind === 's3') !== (outputs.bucket !== null)) {
      const expected = outputs.kind === 's3' ? 'a bucket' : 'no bucket';
      const message = `expected ${expected} with kind ${outputs.kind}, got ${outputs.bucket ?? 'none'}`;
      refuse(['outputs', 'bucket'], message);
    }
    if (outputs.kind === 's3' && outputs.root !== null) {
      const message = `expected none with kind s3 (bucket and prefix say where), got ${outputs.root}`;
      refuse(['outputs', 'root'], message);
    }
    if ((url_env === null) !== (url_file === null)) return;
    const got = url_env === null ? 'neither' : 'both';
    const message = `expected one of url_env and url_file, got ${got}`;
    refuse(['url_env'], message);
  });
export type PostgresStoreSettings = z.infer<typeof PostgresStoreSettings>;

const StoreSettings = z.preprocess(
  (value) =>
    typeof value === 'object' && value !== null && !('kind' in value)
      ? { kind: 'file', ...value }
      : value,
  z.discriminatedUnion('kind', [FileStoreSettings, PostgresStoreSettings]),
);

export const GENERATION_EXAMPLE =
  '{ default: { kind: vllm, base_urls: [http://127.0.0.1:8000/v1] } }';

export const Config = z
  .strictObject({
    temporal: TemporalSettings.describe(
      'the Temporal server; what is null comes from its environment variables and temporal.toml',
    ),
    store: StoreSettings.prefault({}).describe('where journals and results are'),
    inputs_dir: z
      .string()
      .default('.')
      .describe('the folder, or `s3://bucket/prefix`, of sample files: requests read no others'),
    generation: recordOf(GenerationServiceSettings, { example: GENERATION_EXAMPLE })
      .prefault({})
      .describe('generation services by name'),
    environments: recordOf(EnvironmentSettings, { example: '{ math: { kind: math } }' }).describe(
      'environments by name. A sample chooses one by its `task_name`',
    ),
    worker: WorkerSettings.describe('roles and sizes of one worker process'),
    viewer: ViewerSettings.describe('where people look at rollouts (`temporal-rollout serve`)'),
  })
  .superRefine((config, context) => {
    const refuse = refuserOf(context);
    // A queue serves one set of activities. Otherwise tasks would reach a worker without their environment.
    const taken = [config.temporal.task_queue, generationQueue(config)];
    for (const [name, settings] of Object.entries(config.environments)) {
      const own = ownQueue(settings);
      if (own === undefined || !taken.includes(own)) continue;
      const message = `expected a queue that nothing else is on, got ${JSON.stringify(own)}`;
      refuse(['environments', name, 'task_queue'], message);
    }
    for (const { path, message } of [
      ...sharedEngines(config.generation),
      ...agentProblems(config),
      ...unequalLimits(config),
    ])
      refuse(path, message);
  });
export type Config = z.infer<typeof Config>;

const NOTHING = Buffer.from('environments: {}');

/**
 * Reads and checks the file; its relative paths become absolute. Every problem is reported with its place. `missing`:
 * whether the file may be. `directory`: what they are relative to, if it is not the file's.
 */
export async function loadConfig(
  file: string,
  { missing = false, directory = path.dirname(path.resolve(file)) } = {},
): Promise<Config> {
  const bytes = await readWhole(file).catch((cause: unknown) => {
    if (!isMissing(cause)) throw new Error(`cannot read ${file}`, { cause });
    if (missing) return NOTHING;
    throw new Error(`there is no ${file}: write one, or name another with --config`);
  });
  const read: unknown = parseYaml(textOf(bytes, file), file) ?? {};
  // A caller that may do without the file has environments of its own, so the file may lack them.
  const value =
    missing && isRecord(read) ? { ...read, environments: read['environments'] ?? {} } : read;
  const parsed = Config.safeParse(value);
  if (!parsed.success) {
    const found = problemsWithHints(parsed.error, { schema: Config, input: value });
    const problems = found.map((problem) => `  ${lineOf(problem)}`);
    throw new Error(`${file} is not valid:\n${problems.join('\n')}`);
  }
  const { store, inputs_dir, environments } = parsed.data;
  return {
    ...parsed.data,
    store: storeBelow(directory, store),
    inputs_dir:
      placeOf(inputs_dir) === null
        ? path.resolve(directory, inputs_dir)
        : inputs_dir.replace(/\/+$/, ''),
    environments: Object.fromEntries(
      Object.entries(environments).map(([name, settings]) => [
        name,
        resolvePaths(settings, directory),
      ]),
    ),
  };
}

export const environmentAt = (url: string): Config['environments'][string] =>
  EnvironmentSettings.parse({ kind: 'http', url });

function storeBelow(directory: string, store: Config['store']): Config['store'] {
  const below = (place: string): string => path.resolve(directory, place);
  if (store.kind === 'file') return { ...store, root: below(store.root) };
  const { url_file, outputs } = store;
  return {
    ...store,
    url_file: url_file === null ? null : below(url_file),
    outputs: {
      ...outputs,
      root: outputs.kind === 's3' ? null : below(outputs.root ?? DEFAULT_ROOT),
    },
  };
}

export function memoryOf(
  { worker, environments, generation }: Pick<Config, 'worker' | 'environments' | 'generation'>,
  open_files = mostOpenFiles(),
) {
  const { memory, max_generations, roles } = worker;
  return planMemory({
    memory_bytes: bytesOf(memory),
    open_files: Object.values(environments).reduce(
      (left, one) => left - (one.kind === 'code' ? filesOfSandboxes(one, open_files) : 0),
      open_files,
    ),
    max_generations,
    services: Math.max(1, Object.keys(generation).length),
    queues: queuesOfTurns(roles, environments),
  });
}

export const RAISE_LIMIT =
  'raise the hard limit where workers run: ulimit -Hn of the shell, LimitNOFILE of systemd, --ulimit nofile of Docker';

/** What a low limit of open files leaves of a worker's concurrency; null: all of it. */
export function cutByOpenFiles(
  config: Pick<Config, 'worker' | 'environments' | 'generation'>,
  open_files = mostOpenFiles(),
): string | null {
  const [plan, free] = [memoryOf(config, open_files), memoryOf(config, Infinity)];
  const isCut = (['generations', 'plays', 'steps', 'others'] as const).some(
    (one) => plan[one] < free[one],
  );
  if (!isCut) return null;
  const { generations, plays, steps } = plan;
  return `a process may open ${open_files} files and connections: at most ${plays} rollouts, ${generations} generations and ${steps} steps of environments at once`;
}
