# What a script around a program does with files: each line makes some, and says something of them.
set -e
export TZ=UTC LC_ALL=C
seq 1 20000 > numbers; sort -r numbers -o numbers; head -2 numbers
sort -n numbers > sorted; sed -i 's/^1$/one/' sorted; head -1 sorted
awk '{ print > ("rest." ($1 % 3)) }' numbers; wc -l rest.*
split -l 5000 numbers part.; cat part.* | cmp - numbers; ls part.*
dd if=numbers of=blocks bs=1000 count=20 status=none; dd if=sorted of=blocks bs=1000 seek=5 count=2 conv=notrunc status=none; cksum blocks
dd if=/dev/zero of=sparse bs=1 count=1 seek=3000000 status=none; truncate -s 500 blocks; fallocate -l 2000000 allocated; stat -c '%n %s' sparse blocks allocated
gzip -kn numbers; zcat numbers.gz | cmp - numbers; xz -k sorted; xzcat sorted.xz | cmp - sorted; ls ./*.gz ./*.xz
tee first < numbers > second; tee -a first < sorted > third; wc -c first second third
mkdir -p tree/below; cp numbers tree/below/; cp -r tree copy; mv tree/below/numbers tree/moved; mv tree renamed; find . -type f | sort | wc -l; diff -r renamed copy || echo other trees
ln -s numbers link; wc -l < link; echo more >> link; tail -1 numbers; readlink link
chmod 600 numbers; touch -d '2010-01-02 03:04:05' sorted; touch -r sorted numbers; stat -c '%n %a %y' numbers sorted; install -m 640 sorted installed; stat -c '%a %s' installed
cp -p sorted kept; stat -c %y kept; cat sorted numbers > newer; test newer -nt sorted && echo newer
cp numbers one; cp sorted two; diff one two > changes || true; patch -s one changes; cmp one two; echo patched
perl -pi.bak -e 's/6/six/' two; grep -c six two; cmp two.bak sorted
tar --sort=name --mtime=@0 -cf all.tar numbers sorted renamed; tar --sort=name --mtime=@0 -rf all.tar two; tar tf all.tar; mkdir unpacked; tar xf all.tar -C unpacked; cmp unpacked/two two
exec 5> opened; echo five >&5; cat opened; exec 5>&-; echo six >> opened; cat opened
: > empty; test -s empty || echo empty; (set -C; echo no > empty) 2> refused || echo refused
for number in $(seq 200); do echo "$number" > "many.$number"; done; cat many.* | sort -n | tail -1; rm many.*; ls | grep -c many || true
head -c 50000000 /dev/zero > large; touch -d '2010-01-02 03:04:05' large; cp -p large large.copy; stat -c '%n %s %y' large large.copy
