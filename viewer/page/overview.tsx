import type { ComponentChildren, JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import type { RunDocument } from '../documents.js';
import type { Row } from './rows.js';
import { Breakdowns } from './breakdowns.js';
import { Charts } from './charts.js';
import { Command } from './commands.js';
import { Fields } from './fields.js';
import { odditiesOf } from './oddities.js';
import { Steps } from './steps.js';
import { hrefOf } from './address.js';
import { goAndSee } from './hooks.js';
import { breakdown, fatesOf, sumOf } from './sums.js';
import { Shown } from './text.js';
import { decimal, outcomes, percent, plural, seconds, time, whole } from './words.js';

/** What happened, at a glance: of the rollouts that the filter leaves. */
export function Overview({
  run,
  rows,
  all,
  options,
  reading,
}: {
  run: RunDocument;
  rows: readonly Row[];
  /** Whatever the filter is: what is odd is odd among all of them. */
  all: readonly Row[];
  options: Record<string, string>;
  /** How far it is; null: all is read. */
  reading: string | null;
}): JSX.Element {
  const sum = sumOf('', rows);
  const ends = breakdown(rows, ({ ended }) => ended ?? 'unfinished');
  const asked = run.requested ?? all.length;
  const walls = rows.map(({ wall_s }) => wall_s).filter((wall) => wall !== null);
  return (
    <section aria-label="what happened">
      <dl class="glance">
        <Figure name="rollouts">
          {outcomes(fatesOf(rows), rows.length === all.length ? asked : all.length)}
        </Figure>
        <Figure name="mean reward">{decimal(sum.mean_reward)}</Figure>
        <Figure name="ended">
          {ends.length === 0 && '–'}
          {ends.map(({ name, count }) => (
            <span key={name} class="part">
              {name} {whole(count)}
            </span>
          ))}
        </Figure>
        <Figure name="mean tokens">{whole(sum.mean_tokens)}</Figure>
        <Figure name="truncated">{percent(sum.truncated)}</Figure>
        <Figure name="faults">{whole(sum.faults)}</Figure>
        <Figure name="longest wall time">
          {seconds(walls.length === 0 ? null : walls.reduce((a, b) => Math.max(a, b)))}
        </Figure>
        <Figure name="began">{time(run.created_at)}</Figure>
      </dl>
      <Oddities {...{ run: run.id, rows: all, options, reading }} />
      {run.kind === 'batch' && run.is_closed && ends.some(({ name }) => name === 'failed') && (
        <Command
          what="play again those that failed, and keep the others (FILE is the batch’s request)"
          words={['temporal-rollout', 'start', '--input-file', 'FILE', '--id', run.id]}
        />
      )}
      {run.notes.length > 0 && (
        <ul class="notes">
          {run.notes.map((note) => (
            <li key={note}>
              <Shown text={note} />
            </li>
          ))}
        </ul>
      )}
      <Fields title="Settings" fields={run.settings} />
      {run.metrics !== null && (
        <Fields title={plural(Object.keys(run.metrics).length, 'metric')} fields={run.metrics} />
      )}
      <Charts {...{ run: run.id, rows, options }}>
        <Steps {...{ run: run.id, steps: run.closed_steps, options }} />
      </Charts>
      {rows.length > 0 && <Breakdowns {...{ run: run.id, rows, options, reading }} />}
    </section>
  );
}

function Oddities({
  run,
  rows,
  options,
  reading,
}: {
  run: string;
  rows: readonly Row[];
  options: Record<string, string>;
  reading: string | null;
}): JSX.Element | null {
  const oddities = useMemo(() => odditiesOf(rows), [rows]);
  if (rows.length === 0 && reading === null) return null;
  return (
    <div class="oddities">
      <h2>
        Worth a look
        {reading !== null && (
          <span class="wait quiet" role="status">
            {' '}
            so far: {reading}
          </span>
        )}
      </h2>
      {oddities.length === 0 && reading === null && (
        <p class="quiet">Nothing that this page looks for.</p>
      )}
      <ul>
        {oddities.map(({ text, where, by }) => {
          const shown = { ...options, ...(by !== undefined && { by }) };
          const there = where === null ? null : { run, options: { ...shown, where } };
          return (
            <li key={text}>
              {there === null ? (
                <Shown text={text} />
              ) : (
                <a href={hrefOf(there)} onClick={goAndSee(there, 'rollouts')}>
                  <Shown text={text} />
                </a>
              )}
            </li>
          );
        })}
      </ul>
    </div>
  );
}

const Figure = ({ name, children }: { name: string; children: ComponentChildren }): JSX.Element => (
  <div>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
);
