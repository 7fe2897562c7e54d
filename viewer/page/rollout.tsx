import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { RolloutDocument } from '../documents.js';
import { hrefOf } from './address.js';
import type { Colouring } from './cells.js';
import { COLOURINGS, namesIn } from './cells.js';
import { Ending } from './ending.js';
import type { At } from './forking.js';
import { Forking } from './forking.js';
import { go, goQuietly, note, useKeys, useLoaded } from './hooks.js';
import { depthsOf } from './lanes.js';
import { Loading } from './loading.js';
import { MessageView } from './message.js';
import { Neighbours } from './neighbours.js';
import type { RolloutPlace, Source } from './source.js';
import { rolloutIdOf } from './source.js';
import { isColouring } from './strip.js';
import { Summary } from './summary.js';
import { Shown } from './text.js';
import { Timing } from './timing.js';
import { ObservationView, Turn } from './turn.js';

export function RolloutView({
  source,
  place,
  options,
}: {
  source: Source;
  place: RolloutPlace;
  options: Record<string, string>;
}): JSX.Element {
  const id = rolloutIdOf(place);
  const file = source.fileOf(place);
  const loaded = useLoaded(id, () => source.rollout(place));
  return (
    <>
      <h1>
        Rollout {`${place.row}-${place.repeat}`}{' '}
        <span class="quiet">
          of <Shown text={place.run} />
        </span>
      </h1>
      <Neighbours {...{ source, place, options }} />
      {file === null ? (
        <Loading of={loaded} what="the rollout">
          {(rollout) => <Followed {...{ source, place, rollout, options }} />}
        </Loading>
      ) : (
        <p>
          It is in another file of this report:{' '}
          <a href={`${encodeURI(file)}${hrefOf({ ...place, options })}`}>{file}</a>
        </p>
      )}
    </>
  );
}

/** A running one changes while it is looked at. */
function Followed({
  source,
  place,
  rollout,
  options,
}: {
  source: Source;
  place: RolloutPlace;
  rollout: RolloutDocument;
  options: Record<string, string>;
}): JSX.Element {
  const [latest, set] = useState(rollout);
  useEffect(() => {
    if (rollout.entry.ended !== null) return;
    return source.followRollout(place, set);
  }, [rollout]);
  return <Rollout {...{ place, rollout: latest, options }} />;
}

function Rollout({
  place,
  rollout,
  options,
}: {
  place: RolloutPlace;
  rollout: RolloutDocument;
  options: Record<string, string>;
}): JSX.Element {
  const isRaw = options['raw'] === '1';
  const colouring = isColouring(options['colour']) ? options['colour'] : 'logprob';
  const [at, setAt] = useState<At>({
    turn: numberOf(options['turn']),
    token: numberOf(options['token']),
  });
  const look = (to: At): void => {
    setAt(to);
    note({ ...place, options: { ...options, ...named(to) } });
  };
  const linkOf = (turn: number): string =>
    hrefOf({ ...place, options: { ...options, ...named({ turn, token: null }) } });
  const turnTo = (step: number): void => {
    const numbers = rollout.calls.map(({ number }) => number);
    const index = at.turn === null ? -1 : numbers.indexOf(at.turn);
    const next = numbers[Math.max(0, Math.min(numbers.length - 1, index + step))];
    if (next === undefined) return;
    look({ turn: next, token: null });
    show(next);
  };
  const toggleRaw = (): void => {
    goQuietly({ ...place, options: { ...options, ...named(at), raw: isRaw ? '' : '1' } });
  };
  useKeys({
    j: () => {
      turnTo(1);
    },
    k: () => {
      turnTo(-1);
    },
    r: toggleRaw,
    g: () => {
      go({ run: place.run, row: place.row });
    },
  });
  useEffect(() => {
    if (at.turn !== null) show(at.turn);
  }, []);
  return (
    <>
      <Summary rollout={rollout} />
      <div class="switches" role="group" aria-label="how it is shown">
        <button type="button" aria-pressed={isRaw} onClick={toggleRaw}>
          Raw text <kbd>r</kbd>
        </button>
        <Colours
          colouring={colouring}
          onChange={(colour) => {
            goQuietly({ ...place, options: { ...options, ...named(at), colour } });
          }}
        />
      </div>
      <Timing rollout={rollout} />
      <Forking rollout={rollout} at={at} />
      <Conversation {...{ rollout, isRaw, colouring, at, look, linkOf }} />
    </>
  );
}

const named = ({ turn, token }: At): Record<string, string> => ({
  turn: turn === null ? '' : String(turn),
  token: token === null ? '' : String(token),
});

const numberOf = (text: string | undefined): number | null =>
  text === undefined || !/^\d+$/.test(text) ? null : Number(text);

function show(turn: number): void {
  const section = document.getElementById(`turn-${turn}`);
  section?.scrollIntoView({ block: 'start' });
  section?.focus({ preventScroll: true });
}

function Colours({
  colouring,
  onChange,
}: {
  colouring: Colouring;
  onChange: (colouring: string) => void;
}): JSX.Element {
  return (
    <label>
      Colour of tokens{' '}
      <select
        value={colouring}
        onChange={(event) => {
          onChange(event.currentTarget.value);
        }}
      >
        {COLOURINGS.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  );
}

function Conversation({
  rollout,
  isRaw,
  colouring,
  at,
  look,
  linkOf,
}: {
  rollout: RolloutDocument;
  isRaw: boolean;
  colouring: Colouring;
  at: At;
  look: (to: At) => void;
  linkOf: (turn: number) => string;
}): JSX.Element {
  const depths = useMemo(() => depthsOf(rollout.calls), [rollout]);
  const names = useMemo(
    () =>
      namesIn(
        rollout.calls.map(({ answer }) => answer.tokens),
        colouring,
      ),
    [rollout, colouring],
  );
  // The same elements while only the token that is looked at changes, which a turn keeps itself.
  return useMemo(
    () => (
      <>
        <section aria-label="prompt" class="turn">
          <h2>Prompt</h2>
          {rollout.prompt.map((message, index) => (
            <MessageView key={index} message={message} isRaw={isRaw} />
          ))}
        </section>
        {rollout.calls.map((call, index) => (
          <Turn
            key={call.number}
            {...{ call, isRaw, colouring, names, depth: depths[index] ?? 0 }}
            token={at.turn === call.number ? at.token : null}
            onToken={(token) => {
              look({ turn: call.number, token });
            }}
            link={linkOf(call.number)}
            onTurn={() => {
              look({ turn: call.number, token: null });
            }}
          />
        ))}
        {rollout.verdict !== null && (
          <section class="turn" aria-label="verdict">
            <h2>Verdict</h2>
            <ObservationView observation={rollout.verdict} title="verdict" />
          </section>
        )}
        <Ending rollout={rollout} />
      </>
    ),
    [rollout, isRaw, colouring],
  );
}
