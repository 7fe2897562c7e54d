import { textsOf } from '../../../src/platform/lines.js';
import type { CollectionContext, CollectionRequest } from '../request.js';
import type { CollectionFiles } from '../files.js';
import { materialize } from '../../rows/materialize.js';
import { readMaterialized } from '../../resume/load-from-cache.js';
import { changedInputs } from '../../resume/changed-inputs.js';
import { rowsSha256 } from '../../resume/rows-sha256.js';
import type { GymRow } from '../../row.js';
import { resolveUnderRoots } from '../../config/search-roots.js';
import { exists } from '../../../src/platform/files.js';
import type { CollectionState } from '../state.js';
import { readState } from '../state.js';

/** What a collection starts from, according to its files. */
export interface Prepared {
  /** `resumed`: rows are those of the existing materialised inputs. */
  kind: 'fresh' | 'resumed';
  rows: GymRow[];
  /** The state of an earlier collection into these files. */
  earlier: CollectionState | null;
  rows_sha256: string;
  /** Whether `earlier` is about exactly these rows. */
  is_ours: boolean;
  /** A line of the materialised inputs could not be read: `rows` has its row, and must be written. */
  is_mended: boolean;
}

/** Reads the files without changing them. Prints what upstream prints. */
export async function prepare(
  request: CollectionRequest,
  context: CollectionContext & { files: CollectionFiles; shown: CollectionFiles },
): Promise<Prepared> {
  const { config } = request;
  const { files, shown, screen } = context;
  const earlier = await readState(files.state);
  // Upstream resumes only if there is a main file.
  const has_main = await exists(files.main);
  const has_rows = await exists(files.materialized);
  if (config.resume_from_cache && has_rows && (has_main || earlier !== null)) {
    const cached = await readMaterialized(textsOf(files.materialized));
    for (const problem of cached.problems) screen.say(problem);
    const rows = await checkedRows(cached, { request, context });
    const rows_sha256 = rowsSha256(rows);
    const is_ours = earlier !== null && earlier.rows_sha256 === rows_sha256;
    if (has_main || is_ours) {
      refuseNoRows(rows, shown.materialized);
      return { kind: 'resumed', rows, rows_sha256, earlier, is_ours, is_mended: !cached.whole };
    }
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
  const rows_sha256 = rowsSha256(rows);
  return { kind: 'fresh', rows, rows_sha256, earlier, is_ours: false, is_mended: false };
}

/** Nothing would come out, and the earlier output would be gone. */
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

/**
 * Upstream takes the materialised rows whatever the configuration says. But two halves of different inputs are no
 * collection. A row whose line was lost is taken from the inputs.
 */
async function checkedRows(
  cached: Awaited<ReturnType<typeof readMaterialized>>,
  {
    request: { config },
    context,
  }: {
    request: CollectionRequest;
    context: CollectionContext & { shown: CollectionFiles };
  },
): Promise<GymRow[]> {
  const { say } = context.screen;
  if (!(await exists(await resolveUnderRoots(config.input_jsonl_fpath, context)))) {
    const gone = `${config.input_jsonl_fpath} is gone`;
    if (!cached.whole)
      throw new Error(cannotRestore(cached.problems, { gone, file: context.shown.materialized }));
    say(`${gone}: the materialized inputs are taken as they are.`);
    return cached.rows;
  }
  const quiet = { ...materializing(context), say: () => undefined };
  const now = await materialize(config, quiet);
  const changes = changedInputs({ cached: cached.rows, now, whole: cached.whole });
  if (changes.length === 0) return cached.whole ? cached.rows : now;
  throw new Error(
    [
      'The inputs have changed since this collection began, so it cannot be resumed:',
      ...changes.map((change) => `  ${change}`),
      'Collect them into another output file, or without resume_from_cache.',
    ].join('\n'),
  );
}

const cannotRestore = (
  problems: readonly string[],
  { gone, file }: { gone: string; file: string },
): string =>
  [
    `A row of ${file} is lost with its line, and ${gone}:`,
    ...problems.map((problem) => `  ${problem}`),
    'Bring the input file back, or remove the line to continue without its row.',
  ].join('\n');
