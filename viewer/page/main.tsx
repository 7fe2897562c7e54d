import { render } from 'preact';
import { App } from './app.js';
import { note } from './hooks.js';
import type { Source } from './source.js';
import { openSource } from './source.js';

/** A report of one run, or of one rollout, opens there. */
async function openOnly(source: Source): Promise<void> {
  if (source.isLive || location.hash !== '') return;
  const [only, ...others] = await source.runs();
  if (only === undefined || others.length > 0) return;
  const [first, ...rest] = await source.rollouts(only.id);
  note(
    first && rest.length === 0
      ? { run: only.id, row: first.row, repeat: first.repeat }
      : { run: only.id },
  );
}

const root = document.getElementById('page');
if (root === null) throw new Error('the page has no element with id "page"');
openSource(document)
  .then(async (source) => {
    await openOnly(source);
    render(<App source={source} />, root);
  })
  .catch((error: unknown) => {
    render(<p role="alert">{String(error)}</p>, root);
  });
