import type { ComponentChildren, JSX } from 'preact';
import type { RolloutDocument } from '../documents.js';
import { hrefOf, parseRolloutId } from './address.js';
import { Ended } from './list.js';
import type { Placed } from '../hits.js';
import type { Parting } from './parting.js';
import { partingOf, segmentsOf } from './parting.js';
import { keyOf } from './rows.js';
import { Raw, Shown } from './text.js';
import { decimal, plural, whole } from './words.js';

/** Rollouts side by side: what they have in common once, folded, then how each goes on. */
export function Members({ rollouts }: { rollouts: readonly RolloutDocument[] }): JSX.Element {
  const { common, rests } = partingOf(rollouts.map(segmentsOf));
  const isOneRun = new Set(rollouts.map(({ batch_id }) => batch_id)).size === 1;
  return (
    <>
      <details class="common">
        <summary>In common: {plural(common.length, 'text')}</summary>
        {common.map((segment, index) => (
          <SegmentView key={index} segment={segment} />
        ))}
      </details>
      <p class="quiet">
        {rests.some(({ before }) => before !== '') && 'Grey is what they have in common. '}They part
        at <span class="parts-here">▶</span>.
      </p>
      <div class="members" tabIndex={0} role="group" aria-label="members side by side">
        {rollouts.map((rollout, index) => (
          <Member key={rollout.id} rollout={rollout} rest={rests[index]} isOneRun={isOneRun} />
        ))}
      </div>
    </>
  );
}

function Member({
  rollout,
  rest,
  isOneRun,
}: {
  rollout: RolloutDocument;
  rest: Parting['rests'][number] | undefined;
  isOneRun: boolean;
}): JSX.Element {
  const { id, entry, facts } = rollout;
  const title = `member-${id}`;
  return (
    <section class="member" aria-labelledby={title}>
      <h2 id={title}>
        <a href={hrefOf(parseRolloutId(id) ?? {})}>
          <Shown text={isOneRun ? keyOf(entry) : id} />
        </a>
      </h2>
      <p class="facts">
        <strong>reward {decimal(entry.reward)}</strong>{' '}
        <Facts
          facts={[
            <Ended {...entry} />,
            plural(entry.turns, 'turn'),
            plural(entry.tokens, 'token'),
            `mean logprob ${decimal(facts.mean_logprob)}`,
            ...Object.entries(facts.rewards).map(([name, value]) => `${name} ${decimal(value)}`),
            ...facts.replicas,
          ]}
        />
      </p>
      {rest !== undefined && (
        <>
          <h3>{rest.place}</h3>
          <Raw text={rest.rest} lead={<Lead before={rest.before} />} />
          {rest.others.map((segment, index) => (
            <SegmentView key={index} segment={segment} />
          ))}
        </>
      )}
    </section>
  );
}

const Lead = ({ before }: { before: string }): JSX.Element => (
  <>
    <span class="quiet">
      <Shown text={before} />
    </span>
    <span class="parts-here" title="they part here">
      ▶
    </span>
  </>
);

const Facts = ({ facts }: { facts: ComponentChildren[] }): JSX.Element => (
  <>
    {facts.map((fact, index) => (
      <span key={index} class="part">
        {typeof fact === 'string' ? <Shown text={fact} /> : fact}
      </span>
    ))}
  </>
);

const SegmentView = ({ segment: { place, text } }: { segment: Placed }): JSX.Element => (
  <>
    <h3>
      {place} <span class="quiet">{whole(text.length)} characters</span>
    </h3>
    <Raw text={text} />
  </>
);
