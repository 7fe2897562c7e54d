import { createEnvironment, EnvironmentSettings } from '../../src/environments/registry.js';
import { bareContext } from '../fakes/environment-context.js';

/** A worker that says the process of its module, lets it loop, and waits to be killed. */

const settings = EnvironmentSettings.parse({ kind: 'module', path: process.argv[2] });
const environment = await createEnvironment(settings, bareContext());
const say = (content: string) =>
  environment.step(
    { message_log: [{ role: 'assistant', content }], metadata: {} },
    { idempotency_key: `b/0-0/${content}`, signal: new AbortController().signal },
  );
const { observation } = await say('pid');
console.log(observation?.content);
await say('loop');
