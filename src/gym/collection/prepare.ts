import type { CollectionContext, CollectionRequest } from './request.js';
import type { CollectionFiles } from '../files.js';
import { materialize } from '../rows/materialize.js';
import { readMaterialized } from '../resume/load-from-cache.js';
import { changedInputs } from '../resume/changed-inputs.js';
import { linesOf } from '../lines.js';
import type { GymRow } from '../row.js';
import { exists, resolveUnderRoots } from '../config/search-roots.js';
import { sha256Of } from './sha256.js';
import type { CollectionState } from './state.js';
import { readState } from './state.js';

/** What a collection starts from, as far as its files say. */
export interface Prepared {
  /** `resumed`: rows are those of the materialised inputs that are there. */
  kind: 'fresh' | 'resumed';
  rows: GymRow[];
  /** Of whatever was collected into these files before. */
  earlier: CollectionState | null;
  /** Does it say of which batch these rows are? */
  is_ours: boolean;
  /** Is there a main file? Upstream resumes only then. */
  has_main: boolean;
}

/** Reads what is there; nothing is changed yet. Prints what upstream prints. */
export async function prepare(
  request: CollectionRequest,
  context: CollectionContext & { files: CollectionFiles; shown: CollectionFiles },
): Promise<Prepared> {
  const { config } = request;
  const { files, shown, screen } = context;
  const earlier = await readState(files.state);
  const has_main = await exists(files.main);
  const has_rows = await exists(files.materialized);
  const is_ours =
    earlier !== null &&
    has_rows &&
    earlier.materialized_sha256 === (await sha256Of(files.materialized));
  if (config.resume_from_cache && has_rows && (has_main || is_ours)) {
    const cached = await readMaterialized(linesOf(files.materialized));
    for (const problem of cached.problems) screen.say(problem);
    await checkUnchanged(cached, { request, context });
    refuseNoRows(cached.rows, shown.materialized);
    return { kind: 'resumed', rows: cached.rows, earlier, is_ours, has_main };
  }
  if (!config.resume_from_cache) {
    screen.say('Clearing output fpath since `resume_from_cache=False`!');
  } else {
    if (!has_main) {
      screen.say(`Skipping resume_from_cache because output_fpath ${shown.main} doesn't exist!`);
    }
    if (!has_rows) {
      screen.say(
        `Skipping resume_from_cache because materialized_jsonl_fpath ${shown.materialized} doesn't exist!`,
      );
    }
  }
  const rows = await materialize(config, materializing(context));
  refuseNoRows(rows, config.input_jsonl_fpath);
  return { kind: 'fresh', rows, earlier, is_ours: false, has_main };
}

/** Nothing would come out, and what came out before would be gone. */
function refuseNoRows(rows: readonly GymRow[], file: string): void {
  if (rows.length === 0) {
    throw new Error(`'${file}' has no rows: expected at least one JSON object, each on a line`);
  }
}

const materializing = ({ cwd, env, screen: { say } }: CollectionContext) => ({
  cwd,
  env,
  say,
  warn: (text: string) => {
    say(`WARNING: ${text}`);
  },
});

/** Upstream takes the materialised rows whatever the configuration says by now; two halves of different inputs are no collection. */
async function checkUnchanged(
  cached: { rows: GymRow[]; whole: boolean },
  { request, context }: { request: CollectionRequest; context: CollectionContext },
): Promise<void> {
  const { config } = request;
  const { say } = context.screen;
  if (!(await exists(await resolveUnderRoots(config.input_jsonl_fpath, context)))) {
    say(
      `${config.input_jsonl_fpath} is not there any more: the materialized inputs are taken as they are.`,
    );
    return;
  }
  const quiet = { ...materializing(context), say: () => undefined };
  const now = await materialize(config, quiet);
  const changes = changedInputs({ cached: cached.rows, now, whole: cached.whole });
  if (changes.length === 0) return;
  throw new Error(
    [
      'The inputs have changed since this collection began, so it cannot be resumed:',
      ...changes.map((change) => `  ${change}`),
      'Collect them into another output file, or without resume_from_cache.',
    ].join('\n'),
  );
}
