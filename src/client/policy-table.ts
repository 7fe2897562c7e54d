import type { PolicyStatus } from '../activities/contract/policy.js';
import { holdText } from '../model/workflow-safe/hold.js';
import type { ReplicaView } from '../model/results/answers.js';
import { briefFault, sleepText, whyNothingServes } from '../model/workflow-safe/policy.js';
import { aimOf, holderText, needsTexts } from '../model/workflow-safe/policy-texts.js';
import { timeText } from '../model/workflow-safe/waiting.js';
import { plainLine } from '../platform/plain.js';
import { inColumns } from './text-line.js';

/** `policy status`: one line for each replica, then the last updates. */
export function policyTable(
  { service, record, phases, updates, transfer, heard_at }: PolicyStatus,
  now: number,
): string[] {
  if (record === null)
    return [
      `${service}: nothing has been published; engines play with the weights they began with`,
    ];
  const { version, replicas, weights } = record;
  const path = version === null ? '' : (weights[String(version)]?.path ?? '');
  const rows = Object.entries(replicas).map(([url, one]) => [
    url,
    phases[url] === undefined ? one.state : `${one.state}: ${phases[url]}`,
    one.version === null ? '-' : String(one.version),
    one.paused_until === null ? '-' : left(one.paused_until, now),
    briefFault(one.fault ?? standing(one, now)),
  ]);
  const said = updates.map(({ version: of, at, paused_s, total_s, fault }) => [
    new Date(at).toISOString().slice(11, 19),
    of === null ? '-' : String(of),
    `${paused_s.toFixed(2)} s`,
    `${total_s.toFixed(2)} s`,
    briefFault(fault ?? 'done'),
  ]);
  return [
    plainLine(
      `${service}: version ${version ?? 'none'}${path && ` ${path}`}${aimOf(record, updates)}`,
    ),
    ...silence(record, updates).map(plainLine),
    ...held(record, { transfer, heard_at: heard_at ?? 0, now }).map(plainLine),
    '',
    ...columns([['replica', 'state', 'version', 'pause', ''], ...rows]),
    ...(said.length === 0
      ? []
      : ['', ...columns([['update at', 'version', 'paused', 'in all', ''], ...said])]),
  ];
}

const left = (until: number, now: number): string =>
  `${Math.max(0, (until - now) / 1000).toFixed(0)} s left`;

function standing({ state, examined, draining_until }: ReplicaView, now: number): string {
  if (draining_until !== undefined && state !== 'away')
    return `draining, ${left(draining_until, now)}`;
  return examined === false ? 'has joined; not examined yet' : '';
}

function held(
  record: NonNullable<PolicyStatus['record']>,
  { transfer, ...times }: { transfer: PolicyStatus['transfer']; heard_at: number; now: number },
): string[] {
  const { hold, ticket, sleep } = record;
  return [
    ...(hold === undefined ? [] : [holdText(hold, times)]),
    ...(ticket == null ? [] : [holderText(ticket, transfer ?? null)]),
    ...(sleep == null || whyNothingServes(record) !== null ? [] : [sleepText(sleep)]),
    ...needsTexts(record),
  ];
}

/** Why nothing is sampled, since when, and what to do. */
function silence(
  record: NonNullable<PolicyStatus['record']>,
  updates: PolicyStatus['updates'],
): string[] {
  // The holder of a transfer has a line of its own.
  const why = whyNothingServes({ ...record, ticket: null });
  const last = updates.at(-1);
  const isFailed = last !== undefined && last.fault !== null;
  if (why === null) return [];
  const since = isFailed ? ` (since ${timeText(last.at / 1000 + last.total_s)})` : '';
  return [`waiting for a replica${since}: ${why}`];
}

const columns = (rows: readonly (readonly string[])[]): string[] =>
  inColumns(rows).map((line) => line.trimEnd());
