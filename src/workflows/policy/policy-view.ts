import { setCurrentDetails, setHandler } from '@temporalio/workflow';
import type {
  PolicyInput,
  PolicyState,
  PolicyStatus,
  PublishSummary,
} from '../../activities/contract/policy.js';
import type { Heard } from '../../model/workflow-safe/hold.js';
import { heardAt } from '../../model/workflow-safe/hold.js';
import type { PolicyView, ReplicaView } from '../../model/results/answers.js';
import { isPhaseNews, sleepText } from '../../model/workflow-safe/policy.js';
import type { TransferNews } from '../../model/workflow-safe/policy-texts.js';
import { aimOf, holderText, needsTexts } from '../../model/workflow-safe/policy-texts.js';
import { named, quoted } from '../../platform/plain.js';
import { phaseSignal, policyStatusQuery } from '../steering/messages.js';

export type ShownPolicy = ReturnType<typeof showPolicy>;

const MOST_UPDATES = 10;

/** What a policy shows: query `status`, current details. */
export function showPolicy(
  service: string,
  { before, heard }: { before: readonly PublishSummary[]; heard: () => Heard },
) {
  let status: PolicyStatus = { service, record: null, phases: {}, updates: [...before] };
  const show = (change: Partial<PolicyStatus>): void => {
    status = { ...status, ...change };
    setCurrentDetails(detailsOf(status));
  };
  let storeId: string | undefined;
  let newsOf = (): TransferNews | null => null;
  setHandler(policyStatusQuery, () => {
    const transfer = newsOf();
    const hold = status.record?.hold;
    return {
      ...status,
      ...(transfer !== null && { transfer }),
      ...(hold !== undefined && { heard_at: heardAt(hold, heard()) }),
    };
  });
  setHandler(phaseSignal, (news) => {
    if (isPhaseNews(news) && status.record?.replicas[news.replica] !== undefined)
      show({ phases: { ...status.phases, [news.replica]: news.phase } });
  });
  return {
    /** of: the id of the store whose record it is; absent: the store before's. */
    recorded: (record: PolicyView, of = storeId): void => {
      // Epochs grow within a store. Workers that were given another one begin anew, perhaps with none.
      if (storeId !== undefined && of !== storeId) show({ record: null, phases: {} });
      storeId = of;
      // Nothing was ever published.
      if (record.epoch < (status.record?.epoch ?? 0)) return;
      const phases = Object.entries(status.phases).filter(([replica]) =>
        isUnderWay(record, replica),
      );
      show({ record, phases: Object.fromEntries(phases) });
    },
    record: () => status.record,
    asks: (news: typeof newsOf): void => {
      newsOf = news;
    },
    /** A replica could not be given its weights; its workflow tries again. */
    failed: (replica: string, fault: string): void => {
      const { record } = status;
      const entry = record?.replicas[replica];
      if (record === null || entry === undefined) return;
      const replicas = { ...record.replicas, [replica]: { ...entry, fault } };
      show({ record: { ...record, replicas } });
    },
    published: (summary: PublishSummary): void => {
      show({ updates: [...status.updates, summary].slice(-MOST_UPDATES) });
    },
    forNextRun: (): PolicyInput => ({ service, updates: status.updates, heard: heard() }),
  };
}

/** An adapter is loaded beside what a replica serves. */
function isUnderWay({ replicas, target }: PolicyView, replica: string): boolean {
  const entry = replicas[replica];
  return (
    entry !== undefined &&
    (entry.state === 'updating' || (entry.state === 'current' && entry.version !== target))
  );
}

function detailsOf({ service, record, phases, updates }: PolicyStatus): string {
  if (record === null) return `**${named(service)}**: nothing has been published`;
  const { version, replicas } = record;
  const lines = [
    `**version ${version ?? 'none'}**${aimOf(record, updates)} · ${named(service)}`,
    '',
    '| replica | state | version | paused at most until |',
    '|---|---|---|---|',
    ...Object.entries(replicas).map((one) => rowOf(one, phases)),
  ];
  const faults = Object.entries(replicas).flatMap(([url, { fault }]) =>
    fault === null ? [] : [`${named(url)}: ${quoted(fault)}`],
  );
  if (faults.length > 0) lines.push('', ...faults);
  const { ticket = null } = record;
  if (ticket !== null) lines.push('', quoted(holderText(ticket, null)));
  if (record.sleep != null) lines.push('', quoted(sleepText(record.sleep)));
  const needs = needsTexts(record);
  if (needs.length > 0) lines.push('', ...needs.map(quoted));
  const last = updates.at(-1);
  if (last !== undefined) lines.push('', lastLine(last));
  return lines.join('\n');
}

function rowOf(
  [url, { state, version, paused_until }]: [string, ReplicaView],
  phases: PolicyStatus['phases'],
): string {
  const phase = phases[url] === undefined ? '' : ` (${phases[url]})`;
  const until = paused_until === null ? '–' : new Date(paused_until).toISOString();
  return `| ${named(url)} | ${state}${phase} | ${version ?? '–'} | ${until} |`;
}

const lastLine = ({ version, paused_s, total_s, fault }: PublishSummary): string =>
  fault === null
    ? `Last update: ${version ?? '–'}, paused ${paused_s.toFixed(2)} s, ${total_s.toFixed(2)} s in all`
    : `Last update: ${version ?? '–'} failed: ${quoted(fault)}`;

export type Faults = Readonly<Record<string, string>>;

/** The answer of an update that brings no version. */
export const stateOf = ({ version, replicas }: PolicyView, faults: Faults = {}): PolicyState => ({
  version,
  replicas: Object.fromEntries(
    Object.entries(replicas).map(([url, { state, needs, fault: why }]) => {
      const fault = faults[url] ?? why;
      const lacks = { ...(needs !== undefined && { needs }), ...(fault !== null && { fault }) };
      return [url, { state, ...lacks }];
    }),
  ),
});
