import { formatNumber } from '../../../src/client/number-text.js';
import type { Agents } from '../../../src/environments/gym-agent/agents.js';
import { textsOf } from '../../../src/platform/lines.js';
import { aggregate, AgentMetricsMissing } from '../../metrics/aggregate.js';
import { loadFromCache } from '../../resume/load-from-cache.js';
import type { Scalar } from '../../upload/exporter.js';
import { exportedResults } from '../../upload/upload.js';
import type { Collecting } from '../request.js';
import type { Deployment } from '../start/deployment.js';
import type { Played } from '../follow/play.js';
import type { GymRow } from '../../row.js';
import { rolloutName } from '../../row.js';
import { resultKeyOf, textsIfThere } from './result-file.js';
import type { CollectionState } from '../state.js';

const NAMED = 5;

const rowsText = (count: number): string => (count === 1 ? '1 row' : `${formatNumber(count)} rows`);

/** The text for a batch that is started. */
export function introduction(
  { batch_id }: CollectionState,
  { deployment, rows }: { deployment: Deployment; rows: number },
): string {
  const { server, ui_url } = deployment;
  const { namespace } = server;
  const where =
    ui_url === null
      ? `Temporal server  ${server.options.address}, namespace ${namespace}`
      : `Web UI           ${ui_url}/namespaces/${namespace}/workflows/${encodeURIComponent(batch_id)}`;
  return [`Collecting rollouts: ${rowsText(rows)}`, `batch            ${batch_id}`, where, ''].join(
    '\n',
  );
}

/** The text for a batch that is left before its end. */
export function howToContinue(
  { batch_id }: CollectionState,
  { deployment: { folder } }: { deployment: Pick<Deployment, 'folder'> },
): string {
  return folder !== null
    ? `Batch ${batch_id} is not finished, and nothing of it is lost: the same command with +resume_from_cache=true continues.`
    : `Batch ${batch_id} continues without this command: the same command with +resume_from_cache=true collects its results.`;
}

interface Ending {
  /** The collection's rows. */
  rows: readonly GymRow[];
  collecting: Pick<
    Collecting,
    'request' | 'files' | 'shown' | 'screen' | 'signal' | 'max_attempts'
  >;
  agents: Pick<Agents, 'urlOf'>;
}

/** Aggregates the results of the collection's rows and prints the outcome. Returns the exit code. */
export async function finish(played: Played | null, ending: Ending): Promise<number> {
  const { rows, collecting } = ending;
  const { files, shown, screen, max_attempts, request } = collecting;
  const { say } = screen;
  const names = new Set(rows.map(({ key }) => rolloutName(key)));
  const found = await findResults(files.main, names);
  const results = found.size;
  say('Sorting results to ensure consistent ordering');
  const upload = results === 0 ? null : ((await request.openUpload?.()) ?? null);
  if (request.config.upload_rollouts) await upload?.rollouts(() => exportedResults(files.main));
  const { metrics, problem, scalars } = await metricsOf(names, { ...ending, results });
  if (scalars.size > 0) await upload?.metrics(scalars);
  await upload?.close();
  const problems = [...problemsOf(played, { results }), ...(problem === null ? [] : [problem])];
  say(
    [
      'Finished rollout collection! View results at:',
      `Fully materialized inputs: ${shown.materialized}`,
      `Rollouts: ${shown.main}`,
      `Aggregate metrics: ${metrics === null ? 'None' : shown.aggregate}`,
    ].join('\n'),
  );
  const failed = played?.tally.failed ?? 0;
  if (failed > 0) {
    say(
      `${rowsText(failed)} failed: see ${shown.failures}; no metric counts them. A row is played again until ${max_attempts} collections have failed it, or one for good.`,
    );
  }
  if (results < rows.length) {
    const left = rows.filter(({ key }) => !found.has(rolloutName(key)));
    // Nothing was left to play.
    const again = played === null ? 0 : await countAgain(left, collecting);
    const covered = metrics === null ? null : results;
    say(warningOf({ rows: rows.length, without: left.length, again, covered }));
  }
  for (const text of problems) say(text);
  const { route_failures_to_sidecar, require_complete } = request.config;
  const unscored = rows.length - results - (played?.tally.unpersisted ?? 0);
  const isShort = require_complete
    ? results < rows.length
    : unscored > 0 && !route_failures_to_sidecar;
  if (isShort && problems.length === 0)
    say(
      require_complete
        ? 'The exit code is 1, since rows have no result and require_complete is true.'
        : 'The exit code is 1, since rows failed; +route_failures_to_sidecar=true makes it 0.',
    );
  return problems.length === 0 && !isShort ? 0 : 1;
}

/** How many of these rows, which have no result, a resume would play: by the same rules, from the same file. */
async function countAgain(
  rows: GymRow[],
  { files, max_attempts }: Pick<Collecting, 'files' | 'max_attempts'>,
): Promise<number> {
  const failures = await textsIfThere(files.failures);
  const resumed = await loadFromCache({ rows, main: [], failures, max_attempts });
  return resumed.rows.length;
}

/** Writes the metrics of these rows' results. `metrics`: the file; null: there are none. `scalars`: to be uploaded. */
async function metricsOf(
  names: ReadonlySet<string>,
  { collecting, agents, results }: Ending & { results: number },
): Promise<{ metrics: string | null; problem: string | null; scalars: Map<string, Scalar> }> {
  const { request, files, shown, screen, signal } = collecting;
  const made = { metrics: null, problem: null, scalars: new Map<string, Scalar>() };
  if (request.config.disable_aggregation) {
    screen.say(
      'Skipping aggregate-metrics computation because disable_aggregation=True. Run `temporal-rollout aggregate` after all shards finish to compute the global metrics.',
    );
    return made;
  }
  if (results === 0) return made;
  screen.say('Computing aggregate metrics');
  try {
    const metrics = await aggregate({
      inputs: [files.main],
      only: names,
      output: files.main,
      urlOf: (agent) => agents.urlOf(agent, signal),
      signal,
      report: screen.say,
      scalars: made.scalars,
    });
    return { ...made, metrics };
  } catch (error) {
    if (!(error instanceof AgentMetricsMissing)) throw error;
    const again = `temporal-rollout aggregate +input_glob=${shown.main} +output_jsonl_fpath=${shown.main} +merge_shards=false`;
    const problem = `${error.message}\nThe results are whole. When the server is mended: ${again}`;
    return { ...made, metrics: error.file, problem };
  }
}

/**
 * A score over a silently smaller sample would mislead. `without`: rows that have no result; `again`: those of them that
 * a resume plays; `covered`: how many results the metrics cover; null: there are no metrics.
 */
function warningOf({
  rows,
  without,
  again,
  covered,
}: Record<'rows' | 'without' | 'again', number> & { covered: number | null }): string {
  const [have, them, they] = without === 1 ? ['has', 'it', 'It is'] : ['have', 'them', 'They are'];
  const those = covered === null ? '' : `; the metrics cover ${formatNumber(covered)}`;
  const gated = `not played again: too many collections have failed ${them}, or one for good.`;
  const then =
    again === 0
      ? `${they} ${gated}`
      : again === without
        ? `+resume_from_cache=true plays ${them} again.`
        : `+resume_from_cache=true plays ${formatNumber(again)} of them again; the others are ${gated}`;
  return `WARNING: ${formatNumber(without)} of ${rowsText(rows)} ${have} no result${those}. ${then}`;
}

/** Why the collection is incomplete. */
function problemsOf(played: Played | null, { results }: { results: number }): string[] {
  const { failure = null, missing = [] } = played ?? {};
  const named = missing.slice(0, NAMED).join(', ') + (missing.length > NAMED ? ', …' : '');
  const problems: string[] = [];
  if (failure !== null) problems.push(`The batch has no result: ${failure}`);
  if (missing.length > 0)
    problems.push(
      `${rowsText(missing.length)} with neither a result nor a failure (${named}): +resume_from_cache=true plays what is missing.`,
    );
  if (results === 0) problems.push('Nothing produced a result: there is no score.');
  return problems;
}

/** The names of those of these rows that have a result. */
async function findResults(file: string, names: ReadonlySet<string>): Promise<Set<string>> {
  const found = new Set<string>();
  for await (const line of textsOf(file)) {
    const result = resultKeyOf(line);
    if (result !== null && names.has(rolloutName(result.key))) found.add(rolloutName(result.key));
  }
  return found;
}
