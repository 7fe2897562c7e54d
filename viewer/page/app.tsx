import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Address } from './address.js';
import { hrefOf } from './address.js';
import { CompareView } from './compare.js';
import { GroupView } from './group.js';
import { Help } from './help.js';
import { useAddress, useKeys } from './hooks.js';
import { RolloutView } from './rollout.js';
import { RunView } from './run.js';
import { RunsView } from './runs.js';
import type { Source } from './source.js';
import { Shown } from './text.js';
import { THEMES, useThemeSwitch } from './theme.js';

export function App({ source }: { source: Source }): JSX.Element {
  const address = useAddress();
  const [isHelp, setHelp] = useState(false);
  const main = useRef<HTMLElement>(null);
  useKeys({
    '?': () => {
      setHelp(true);
    },
  });
  const place = address === null ? '' : placeOf(address);
  useEffect(() => {
    document.title = address === null ? 'Rollouts' : titleOf(address);
    scrollTo(0, 0);
  }, [place]);
  return (
    <>
      <a
        class="skip"
        href={location.hash}
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      >
        Skip to the content
      </a>
      <header class="top">
        <nav aria-label="Where you are">
          <Crumbs address={address} />
        </nav>
        <div class="tools">
          <Theme />
          <button
            type="button"
            onClick={() => {
              setHelp(true);
            }}
          >
            Keys <kbd>?</kbd>
          </button>
        </div>
      </header>
      <main id="content" tabIndex={-1} ref={main}>
        {address === null ? (
          <p role="alert">
            This address names nothing: <Shown text={location.hash} />
          </p>
        ) : (
          <View key={place} source={source} address={address} />
        )}
      </main>
      {isHelp && (
        <Help
          onClose={() => {
            setHelp(false);
          }}
        />
      )}
    </>
  );
}

function View({ source, address }: { source: Source; address: Address }): JSX.Element {
  const { run, row, repeat, options } = address;
  if (run === null) return <RunsView source={source} />;
  const at = { source, options };
  if (options['with'] !== undefined)
    return <CompareView source={source} address={{ ...address, run }} other={options['with']} />;
  if (row === null) return <RunView {...at} id={run} />;
  if (repeat === null) return <GroupView {...at} run={run} row={row} />;
  return <RolloutView {...at} place={{ run, row, repeat }} />;
}

function Crumbs({ address }: { address: Address | null }): JSX.Element {
  const { run = null, row = null, repeat = null, options = {} } = address ?? {};
  const { where = '', sort = '' } = options;
  const kept = { where, sort };
  const name = `rollout ${row ?? ''}-${repeat ?? ''}`;
  const isBeside = options['with'] !== undefined;
  return (
    <ol class="crumbs">
      <li>
        <a href="#/">Runs</a>
      </li>
      {run !== null && (
        <li>
          <a href={hrefOf({ run, options: kept })}>
            <Shown text={run} />
          </a>
        </li>
      )}
      {run !== null && row !== null && (
        <li>
          <a href={hrefOf({ run, row, options: kept })}>group {row}</a>
        </li>
      )}
      {run !== null && repeat !== null && (
        <li aria-current={isBeside ? undefined : 'page'}>
          {isBeside ? <a href={hrefOf({ run, row, repeat, options: kept })}>{name}</a> : name}
        </li>
      )}
      {isBeside && <li aria-current="page">compared</li>}
    </ol>
  );
}

function Theme(): JSX.Element {
  const [theme, set] = useThemeSwitch();
  return (
    <label>
      Theme{' '}
      <select
        value={theme}
        onChange={(event) => {
          set(event.currentTarget.value);
        }}
      >
        {THEMES.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  );
}

/** What has a page of its own: with another one beside it, it is another page. */
const placeOf = ({ options, ...address }: Address): string =>
  hrefOf({ ...address, options: { with: options['with'] ?? '' } });

const titleOf = ({ run, row, repeat }: Address): string =>
  run === null
    ? 'Rollouts'
    : row === null
      ? run
      : repeat === null
        ? `group ${row} · ${run}`
        : `${row}-${repeat} · ${run}`;
