# Reads the MUNGE key by the role of the instance, in a request signed by SigV4.
import base64, datetime, hashlib, hmac, json, os, sys, urllib.error, urllib.parse, urllib.request as web
E = os.environ
def imds(path):
    r = web.Request(E['IMDS'] + '/latest/meta-data/' + path, headers={'X-aws-ec2-metadata-token': E['TOKEN']})
    return web.build_opener(web.ProxyHandler({})).open(r, timeout=5).read().decode()
try:
    role = imds('iam/security-credentials/').split()[0]
    c = json.loads(imds('iam/security-credentials/' + role))
except (urllib.error.URLError, IndexError, ValueError) as e:
    sys.exit('key: the instance has no role that can be used (%s): set the instance profile of the pool' % e)
kind, name = E['KEY'].split(':', 1)
if kind == 'ssm':
    service, target, ask = 'ssm', 'AmazonSSM.GetParameter', {'Name': name, 'WithDecryption': True}
else:
    service, target, ask = kind, 'secretsmanager.GetSecretValue', {'SecretId': name}
url = E['ENDPOINT'] or 'https://%s.%s.%s' % (service, E['REGION'], E['DOMAIN'])
body = json.dumps(ask).encode()
now = datetime.datetime.now(datetime.timezone.utc).strftime('%Y%m%dT%H%M%SZ')
head = {'content-type': 'application/x-amz-json-1.1', 'host': urllib.parse.urlsplit(url).netloc, 'x-amz-date': now,
        'x-amz-security-token': c['Token'], 'x-amz-target': target}
names = ';'.join(sorted(head))
canon = '\n'.join(['POST', '/', ''] + ['%s:%s' % (k, head[k]) for k in sorted(head)] + ['', names, hashlib.sha256(body).hexdigest()])
scope = '/'.join([now[:8], E['REGION'], service, 'aws4_request'])
sign = '\n'.join(['AWS4-HMAC-SHA256', now, scope, hashlib.sha256(canon.encode()).hexdigest()])
k = ('AWS4' + c['SecretAccessKey']).encode()
for part in scope.split('/') + [sign]:
    k = hmac.new(k, part.encode(), hashlib.sha256).digest()
head['Authorization'] = 'AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s' % (c['AccessKeyId'], scope, names, k.hex())
try:
    a = json.loads(web.urlopen(web.Request(url + '/', body, head), timeout=15).read())
except urllib.error.HTTPError as e:
    sys.exit('key: %s answers %d: %s' % (url, e.code, e.read(500).decode('ascii', 'replace')))
except urllib.error.URLError as e:
    sys.exit('key: %s: %s' % (url, e.reason))
text = a['Parameter']['Value'] if kind == 'ssm' else a.get('SecretString') or a['SecretBinary']
try:
    key = base64.b64decode(''.join(text.split()), validate=True)
except ValueError:
    sys.exit('key: the value is not base64: store it by base64 -w0 /etc/munge/munge.key')
if not 32 <= len(key) <= 1024:
    sys.exit('key: it has %d bytes; MUNGE wants 32 to 1024' % len(key))
with os.fdopen(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'wb') as f:
    f.write(key)
