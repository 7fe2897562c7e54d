import type { BatchRequest } from '../../model/batch-request.js';
import type { LineOf } from '../../model/journal.js';
import { applyLine, emptyTrajectory, type Trajectory } from '../../model/journal/trajectory.js';
import { openAnswer } from '../../model/journal/open-answers.js';
import type { Problem } from '../../model/problems.js';
import { invalidBatchRequest, preview } from '../../model/problems.js';
import { naturalEnd, roomFor } from '../../model/turn/stop-rules.js';
import { canContinue } from '../../sampling/seam.js';
import type { Dependencies } from '../dependencies.js';
import { settingsOf } from '../start/begin.js';
import type { Prefix } from '../start/inherit.js';
import { readPrefix } from '../start/inherit.js';

/**
 * Refuses a fork that could not go on where it is cut, or whose row would be half of something else. Returns the request,
 * which expects the weights of the tokens that are to train.
 */
export async function checkFork(
  request: BatchRequest,
  { store, environment }: Pick<Dependencies, 'store' | 'environment'>,
): Promise<BatchRequest> {
  const { fork } = request;
  if (fork === undefined) return request;
  const prefix = await readPrefix({ fork, generation: request.generation }, store);
  const { start } = prefix;
  const program = environment(start.task_name)?.environment.program;
  const trajectory = begunAs(prefix, request);
  const problems = [
    ...pointProblems(request, { start, trajectory }),
    ...logprobProblems(request, prefix),
  ];
  const refuse = (where: string, what: string): void => void problems.push({ where, what });
  if ((start.plays === 'agent') !== (program !== undefined))
    refuse(
      'fork.rollout_id',
      `expected a rollout that ${start.task_name} plays as it does now, got one ${start.plays === 'agent' ? 'of an agent' : 'without an agent'}`,
    );
  if (program?.rules.restart === 'fresh' && prefix.inherited.length > 0)
    refuse(
      'fork.at',
      `expected turn:0, since environment ${start.task_name} answers a program that begins again anew (restart: fresh), got ${fork.at}`,
    );
  const version = fork.train_prefix ? versionOf(trajectory) : null;
  if (fork.train_prefix && version === null)
    refuse(
      'fork.train_prefix',
      'expected tokens of one known version before the fork, got none, several, or of unknown ones',
    );
  const { policy_version } = request;
  if (version !== null && policy_version !== null && policy_version !== version)
    refuse(
      'policy_version',
      `expected ${preview(version)} with fork.train_prefix, which has sampled the tokens before ${fork.at}, got ${preview(policy_version)}`,
    );
  if (problems.length > 0) throw invalidBatchRequest(problems);
  return version === null ? request : { ...request, policy_version: version };
}

/** As it will be when it goes on. */
function begunAs({ start, inherited }: Prefix, request: BatchRequest): Trajectory {
  const trajectory = emptyTrajectory();
  const by = { writer: 'planned', at: start.at };
  const claim: LineOf<'claim'> = { kind: 'claim', ...by, activity: '', attempt: 1, reopen: false };
  applyLine(trajectory, claim);
  applyLine(trajectory, { ...start, ...by, settings: settingsOf(request) });
  for (const line of inherited) applyLine(trajectory, { ...line, ...by });
  return trajectory;
}

function pointProblems(
  { fork, generation, max_version_span, max_seq_len }: BatchRequest,
  { start, trajectory }: { start: LineOf<'start'>; trajectory: Trajectory },
): Problem[] {
  const at = fork?.at ?? '';
  const refused = (what: string): Problem[] => [{ where: 'fork.at', what: `${what}, got ${at}` }];
  const ended = naturalEnd(trajectory);
  if (ended !== null)
    return refused(`expected a place before the end: there, these settings end it (${ended})`);
  if (start.plays !== 'agent' && roomFor(trajectory) <= openAnswer(trajectory).token_ids.length)
    return refused(
      `expected a place with room for a token (max_new_tokens ${generation.max_new_tokens}, max_seq_len ${max_seq_len})`,
    );
  if (!at.startsWith('token:')) return [];
  if (!canContinue(generation))
    return refused(
      'expected turn:N with a presence or frequency penalty, bad_words or structured_outputs: an engine counts them within one answer',
    );
  return max_version_span === null
    ? []
    : refused('expected turn:N with max_version_span, since other weights may go on in the turn');
}

/** Each sampled token of a row has them, or none. */
function logprobProblems(
  { generation, fork }: BatchRequest,
  { inherited, start }: Prefix,
): Problem[] {
  const has = start.settings.generation;
  if (!inherited.some(({ kind }) => kind === 'chunk')) return [];
  const refused = (name: string, what: string): Problem => ({
    where: `generation.${name}`,
    what: `expected ${what}, as ${fork?.rollout_id ?? ''} has it, got another`,
  });
  return [
    ...(generation.include_logprobs && !has.include_logprobs
      ? [refused('include_logprobs', 'false')]
      : []),
    ...(generation.top_logprobs > has.top_logprobs
      ? [refused('top_logprobs', `at most ${has.top_logprobs}`)]
      : []),
  ];
}

/** Of all that was sampled; null: several, or nobody knows. */
function versionOf({ calls }: Trajectory): string | null {
  const sampled = calls.flatMap(({ sampled: { segments } }) => segments);
  const versions = new Set(sampled.map(({ policy_version }) => policy_version));
  return versions.size === 1 ? ([...versions][0] ?? null) : null;
}
