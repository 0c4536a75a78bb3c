// The official JavaScript client: objects, watch, log, command.
import { createRequire } from "node:module";
import { Writable } from "node:stream";
const require = createRequire(process.env.SREMUT_NODE_MODULES + "/");
const k8s = require("@kubernetes/client-node");

const space = process.argv[2];
const kc = new k8s.KubeConfig();
kc.loadFromDefault();
const core = kc.makeApiClient(k8s.CoreV1Api);
await core.createNamespace({ body: { metadata: { name: space } } });
const command = ["sh", "-c", "echo hello; trap 'exit 0' TERM; sleep 3600 & wait"];
await core.createNamespacedPod({
  namespace: space,
  body: {
    metadata: { name: "p", labels: { app: "p" } },
    spec: {
      terminationGracePeriodSeconds: 1,
      containers: [{ name: "main", image: "busybox:1.36", command }],
    },
  },
});
const watch = new k8s.Watch(kc);
await new Promise((resolve, reject) => {
  let request;
  watch
    .watch(`/api/v1/namespaces/${space}/pods`, { timeoutSeconds: 30 }, (_, pod) => {
      const found = (pod.status.conditions ?? []).find((c) => c.type === "Ready");
      if (found?.status === "True") {
        resolve();
        request.abort();
      }
    }, (error) => (error && error.name !== "AbortError" ? reject(error) : resolve()))
    .then((started) => (request = started));
});
let out = "";
const sink = new Writable({ write(chunk, _, done) { out += chunk; done(); } });
await new Promise((resolve, reject) => {
  new k8s.Exec(kc)
    .exec(space, "p", "main", ["echo", "out"], sink, process.stderr, null, false, resolve)
    .catch(reject);
});
const log = await core.readNamespacedPodLog({ name: "p", namespace: space });
let missing = null;
try {
  await core.readNamespacedPod({ name: "nope", namespace: space });
} catch (error) {
  missing = [error.code, JSON.parse(error.body).reason];
}
await core.deleteNamespace({ name: space });
console.log(JSON.stringify({
  version: require("@kubernetes/client-node/package.json").version,
  ready: true, exec: out, log, missing,
}));
process.exit(0);
